package terms_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/test/services/leaks"
	"github.com/carillon/carillon/internal/test/services/migrated"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// operation is one call of a history of terms, with its result.
type operation struct {
	what     string // takeover, renew, resign, write
	shard    int
	holder   string
	epoch    int64 // of the caller's term
	lockHeld bool
}

type result struct {
	done    bool  // won, renewed, written
	epoch   int64 // that was won
	unknown bool  // no answer came in time
}

const historyShards = 2

// register is all that the histories depend on: the leaders rows, as if every
// call were one step. Terms last until they are resigned.
type register struct {
	greatest int64
	rows     [historyShards]struct {
		holder         string
		epoch          int64
		runs, lockHeld bool
	}
}

// step says whether a call may have come to what it came to, and how the
// register stands then.
func step(state, input, output any) (bool, any) {
	r, did, got := state.(register), input.(operation), output.(result)
	row := &r.rows[did.shard]
	own := row.holder == did.holder && row.epoch == did.epoch && did.epoch > 0
	should := result{done: own && row.runs}
	switch did.what {
	case "takeover":
		should.done = !row.runs || did.lockHeld && row.lockHeld && row.holder != did.holder
		if should.done {
			r.greatest++
			row.holder, row.epoch, row.runs, row.lockHeld = did.holder, r.greatest, true, did.lockHeld
			should.epoch = r.greatest
		}
	case "renew":
		if should.done {
			row.lockHeld = did.lockHeld
		}
	case "resign":
		if own {
			row.runs = false
		}
		should.done = true
	case "write": // the fence asks for the epoch alone
		should.done = own
	}
	return got.unknown || got == should, r
}

var model = porcupine.Model{
	Init: func() any { return register{} },
	Step: step,
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%+v: %+v", input, output)
	},
}

// actor is one process of a history.
type actor struct {
	store  *postgres.Store
	random *rand.Rand
	id     int
	name   string                       // new in each history: late calls of the last one mean somebody else
	terms  [historyShards]schedule.Term // as it believes
	began  time.Time
	ops    []porcupine.Operation
}

func (a *actor) act(ctx context.Context) error {
	shard := a.random.IntN(historyShards)
	did := operation{
		what: []string{"takeover", "takeover", "renew", "resign", "write", "write"}[a.random.IntN(6)], shard: shard,
		holder: a.name, lockHeld: a.random.IntN(3) > 0,
	}
	term := a.terms[shard]
	if did.epoch = term.Epoch; term.Epoch == 0 {
		did.what = "takeover"
	}
	if a.random.IntN(8) == 0 { // the answer may come too late
		limited, cancel := context.WithTimeout(ctx, time.Duration(a.random.IntN(2000))*time.Microsecond)
		defer cancel()
		ctx = limited
	}
	call := time.Since(a.began)
	var got result
	var err error
	switch did.what {
	case "takeover":
		var won schedule.Term
		won, got.done, err = a.store.Takeover(ctx, schedule.TakeoverRequest{
			Shard: shard, Shards: historyShards, Holder: did.holder, TTL: time.Hour, LockHeld: did.lockHeld,
		})
		if got.epoch = won.Epoch; got.done {
			a.terms[shard] = won
		}
	case "renew":
		_, err = a.store.Renew(ctx, term, schedule.RenewRequest{TTL: time.Hour, LockHeld: did.lockHeld})
		got.done = err == nil
	case "resign":
		err = a.store.Resign(ctx, term, schedule.Resignation{})
		got.done = true
	case "write":
		_, err = a.store.Prune(ctx, term, time.Unix(0, 0), 1)
		got.done = err == nil
	}
	returned := time.Since(a.began)
	switch {
	case errors.Is(err, schedule.ErrFenced):
		err = nil
	case err != nil && ctx.Err() != nil: // it may take effect at any time
		got, err, returned = result{unknown: true}, nil, time.Hour
	}
	a.ops = append(a.ops, porcupine.Operation{ClientId: a.id, Input: did, Call: int64(call), Output: got, Return: int64(returned)})
	return err
}

// Whatever several processes do at once, the leaders rows of a real Postgres
// answer as if one call came after the other: epochs grow, no two holders have
// one, nothing is renewed or written in an old one.
func TestHistoriesOfTermsAreThoseOfOneRegister(t *testing.T) {
	t.Parallel()
	histories, actors, calls := 200, 4, 10
	if testing.Short() {
		histories = 30
	}
	url := migrated.Postgres(t)
	store, err := postgres.Open(t.Context(), url, postgres.Options{MaxConns: 6, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	var unknown int
	for seed := range histories {
		if _, err := conn.Exec(t.Context(), `TRUNCATE leaders`); err != nil {
			t.Fatal(err)
		}
		var ops []porcupine.Operation
		var mu sync.Mutex
		var g sync.WaitGroup
		began := time.Now()
		for id := range actors {
			g.Go(func() {
				a := &actor{store: store, random: rand.New(rand.NewPCG(uint64(seed), uint64(id))), id: id, name: fmt.Sprintf("h%d-%d", seed, id), began: began}
				for range calls {
					if err := a.act(t.Context()); err != nil {
						t.Errorf("history %d: %v", seed, err)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				ops = append(ops, a.ops...)
			})
		}
		g.Wait()
		for _, op := range ops {
			if op.Output.(result).unknown {
				unknown++
			}
		}
		if !porcupine.CheckOperations(model, ops) {
			for _, op := range ops {
				t.Logf("%8d to %8d µs, %d: %s", op.Call/1000, op.Return/1000, op.ClientId, model.DescribeOperation(op.Input, op.Output))
			}
			t.Fatalf("history %d is not that of one register", seed)
		}
	}
	t.Logf("%d histories of %d calls each, %d calls without an answer", histories, actors*calls, unknown)
}

func TestTheHistoryCheckerFindsFaults(t *testing.T) {
	t.Parallel()
	op := func(client int, call, returned int64, did operation, got result) porcupine.Operation {
		return porcupine.Operation{ClientId: client, Call: call, Return: returned, Input: did, Output: got}
	}
	won := op(0, 0, 1, operation{what: "takeover", holder: "a", lockHeld: true}, result{done: true, epoch: 1})
	for name, wrong := range map[string]porcupine.Operation{
		"an epoch is given twice":               op(1, 2, 3, operation{what: "takeover", holder: "b", lockHeld: true}, result{done: true, epoch: 1}),
		"an epoch is given to another shard":    op(1, 2, 3, operation{what: "takeover", shard: 1, holder: "b"}, result{done: true, epoch: 1}),
		"a term is taken that runs":             op(1, 2, 3, operation{what: "takeover", holder: "b"}, result{done: true, epoch: 2}),
		"another's epoch is renewed":            op(1, 2, 3, operation{what: "renew", holder: "b", epoch: 1}, result{done: true}),
		"something is written in an old epoch":  op(1, 2, 3, operation{what: "write", holder: "a", epoch: 0}, result{done: true}),
		"what was won is gone without a reason": op(0, 2, 3, operation{what: "renew", holder: "a", epoch: 1}, result{}),
	} {
		if porcupine.CheckOperations(model, []porcupine.Operation{won, wrong}) {
			t.Errorf("%s, and nothing is said", name)
		}
	}
}
