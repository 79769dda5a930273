package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/test/chaos/proxy"
	"github.com/carillon/carillon/internal/test/chaos/record"
)

const contSignal = syscall.SIGCONT

// termBound is how long a process may take to end after SIGTERM.
const termBound = 20 * time.Second

// strike brings one fault about and returns when slots flow again.
func (s *site) strike(ctx context.Context, st step) (record.Fault, error) {
	leading, err := s.leader(ctx, st.pick)
	if err != nil {
		return record.Fault{}, err
	}
	victim := leading.worker
	f := record.Fault{Kind: st.kind, Target: victim.name, Epoch: leading.newest, Shards: leading.shards, Leader: slices.Contains(strikesLeader, st.kind)}
	f.Began = time.Now()
	switch st.kind {
	case killLeader, killAtPoint, stopLeader, stopAtPoint, termLeader, killResigning, rollAll, killWorkers:
		err = s.strikeWorkers(ctx, st, victim, &f)
	case killLauncher, launcherPoint, stopLauncher, killRegistrar, registrarPoint:
		err = s.strikeOther(ctx, st, &f)
	case killFetcher, stopFetcher:
		err = s.strikeFetcher(ctx, st, &f)
	case restartStore, endSession, endSessions, losePresence, killBackend, flushRedis, restartRedis:
		err = s.strikeServer(ctx, st, &f)
	case record.ExecutorDown, record.ExecutorBroken, record.ExecutorHung:
		err = s.strikeExecutor(ctx, st, victim, &f)
	default:
		err = s.strikeLink(ctx, st, victim, &f)
	}
	if err != nil {
		return f, fmt.Errorf("%s of %s: %w", st.kind, f.Target, err)
	}
	from, past, of := later(f.Began, f.Ended), int64(0), s.allShards()
	if f.Leader {
		from, past, of = f.Began, f.Epoch, f.Shards
	}
	if f.Calm, err = s.flows(ctx, from, past, of); err == nil {
		f.Calm, err = s.flows(ctx, later(from, f.Ended), past, of)
	}
	return f, err
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (s *site) strikeWorkers(ctx context.Context, st step, victim *child, f *record.Fault) error {
	switch st.kind {
	case killLeader:
		f.Began = time.Now()
		victim.kill()
		return s.again(ctx, victim, f)
	case killAtPoint:
		reached, err := s.atPoint(ctx, st, victim, f)
		if !reached && err == nil {
			f.Began = time.Now()
			victim.kill()
		}
		return errors.Join(err, s.again(ctx, victim, f))
	case stopLeader, stopAtPoint:
		return s.freeze(ctx, st, victim, f)
	case termLeader:
		f.Began = time.Now()
		err := victim.terminate(termBound)
		return errors.Join(err, victim.start())
	case killResigning:
		if err := victim.arm(failpoint.Resigned + ":kill"); err != nil {
			return err
		}
		sleep(ctx, armTime)
		f.Began = time.Now()
		victim.signal(syscall.SIGTERM)
		if s.firstDeath(ctx, []*child{victim}, termBound) == nil {
			return errors.New("it has not ended")
		}
		f.Point = failpoint.Resigned
		return victim.start()
	case rollAll:
		f.Target = "workers"
		for _, w := range s.workers {
			if err := errors.Join(w.terminate(termBound), w.start(), w.awaitReady(ctx)); err != nil {
				return err
			}
		}
	default: // all of them
		f.Target = "workers"
		for _, w := range s.workers {
			w.kill()
		}
		sleep(ctx, st.length)
		for _, w := range s.workers {
			if err := w.start(); err != nil {
				return err
			}
		}
		if err := s.workers[0].awaitReady(ctx); err != nil {
			return err
		}
	}
	f.Ended = time.Now()
	return nil
}

// again starts a killed worker again. On SQLite it is all there is, and its
// file is looked at first.
func (s *site) again(ctx context.Context, victim *child, f *record.Fault) error {
	if s.dose.store != "sqlite" {
		return victim.start()
	}
	if err := errors.Join(s.integrity(ctx), victim.start(), victim.awaitReady(ctx)); err != nil {
		return err
	}
	f.Ended = time.Now()
	return nil
}

// pointBound is how long a process may take to come by a failpoint; some come
// rarely.
const pointBound = 3 * time.Second

// armTime is how long a process may take to read what its failpoints should do.
const armTime = 60 * time.Millisecond

// atPoint waits until the victim has killed itself at a failpoint. For those of a
// takeover it kills the leader, and the next leader kills itself.
func (s *site) atPoint(ctx context.Context, st step, victim *child, f *record.Fault) (reached bool, err error) {
	takeover := slices.Contains(takeoverPoints, st.point)
	armed := []*child{victim}
	rule := fmt.Sprintf("%s:kill:%d", st.point, st.nth)
	if takeover {
		rule = st.point + ":kill:1"
		armed = slices.DeleteFunc(slices.Clone(s.workers), func(w *child) bool { return w == victim })
	}
	for _, c := range armed {
		if err := c.arm(rule); err != nil {
			return false, err
		}
	}
	if takeover {
		sleep(ctx, armTime)
		f.Began = time.Now()
		victim.kill()
	}
	died := s.firstDeath(ctx, armed, pointBound)
	at := time.Now()
	for _, c := range armed {
		if err := c.arm("none:kill"); err != nil {
			return false, err
		}
	}
	if died == nil {
		return takeover, nil // the leader is dead all the same
	}
	f.Point = st.point
	if takeover {
		sleep(ctx, armTime)
		return true, startDead(armed)
	}
	f.Began = at
	return true, nil
}

// startDead starts those again that have ended: of several shards more than one
// is taken over.
func startDead(children []*child) error {
	var problems []error
	for _, c := range children {
		_, ended := c.current()
		select {
		case <-ended:
			problems = append(problems, c.start())
		default:
		}
	}
	return errors.Join(problems...)
}

// firstDeath is the first of them to end within a bound, or nil.
func (s *site) firstDeath(ctx context.Context, of []*child, bound time.Duration) *child {
	var found *child
	_ = within(ctx, bound, "one dies", func() error {
		for _, c := range of {
			_, ended := c.current()
			select {
			case <-ended:
				found = c
				return nil
			default:
			}
		}
		return errors.New("all live")
	})
	return found
}

// freeze stops the leader past its lease, and lets it go on when another leads.
func (s *site) freeze(ctx context.Context, st step, victim *child, f *record.Fault) error {
	if st.kind == stopAtPoint {
		if err := victim.arm(fmt.Sprintf("%s:stop:%d", st.point, st.nth)); err != nil {
			return err
		}
		sleep(ctx, time.Second)
		f.Point = st.point
	}
	f.Began = time.Now()
	victim.signal(syscall.SIGSTOP)
	_, err := s.flows(ctx, f.Began, f.Epoch, f.Shards)
	sleep(ctx, st.length-time.Since(f.Began))
	err = errors.Join(err, victim.arm("none:kill"))
	victim.signal(syscall.SIGCONT)
	f.Ended = time.Now()
	return err
}

func (s *site) strikeOther(ctx context.Context, st step, f *record.Fault) error {
	victim := s.registrar
	if (st.kind == killLauncher || st.kind == launcherPoint || st.kind == stopLauncher) && len(s.launchers) > 0 {
		victim = s.launchers[st.pick%len(s.launchers)]
	}
	f.Target = victim.name
	if st.kind == stopLauncher {
		victim.signal(syscall.SIGSTOP)
		sleep(ctx, st.length)
		victim.signal(syscall.SIGCONT)
		f.Ended = time.Now()
		return nil
	}
	if st.kind == launcherPoint || st.kind == registrarPoint {
		if err := victim.arm(fmt.Sprintf("%s:kill:%d", st.point, st.nth)); err != nil {
			return err
		}
		if s.firstDeath(ctx, []*child{victim}, pointBound) != nil {
			f.Point = st.point
		}
		f.Began = time.Now()
	}
	victim.kill()
	if st.pick%3 == 0 {
		sleep(ctx, st.length/2)
	}
	if err := errors.Join(victim.start(), victim.awaitReady(ctx)); err != nil {
		return err
	}
	f.Ended = time.Now()
	return nil
}

func (s *site) strikeServer(ctx context.Context, st step, f *record.Fault) error {
	switch st.kind {
	case restartStore:
		f.Target = "postgres"
		s.postgres.Crash()
		if st.pick%2 == 0 {
			sleep(ctx, st.length/2)
		}
		if err := s.postgres.Restart(ctx); err != nil {
			return err
		}
	case restartRedis:
		f.Target = "redis"
		s.redis.Crash()
		if st.pick%2 == 0 {
			sleep(ctx, st.length/2)
		}
		if err := s.redis.Restart(ctx); err != nil {
			return err
		}
	case flushRedis:
		f.Target = "redis"
		if err := s.flush(ctx); err != nil {
			return err
		}
	case killBackend:
		f.Target = "postgres"
		if err := s.killBackend(ctx); err != nil {
			return err
		}
	default:
		return s.endSessions(ctx, st, f)
	}
	f.Ended = time.Now()
	return nil
}

// killBackend kills the server process of a session: the server then ends all of them,
// and recovers.
func (s *site) killBackend(ctx context.Context) error {
	db, err := s.open()
	if err != nil {
		return err
	}
	defer db.Close()
	var pid int
	if err := db.QueryRowContext(ctx, sqlBackend).Scan(&pid); err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill backend %d: %w", pid, err)
	}
	return within(ctx, time.Minute, "Postgres has recovered", func() error { return db.PingContext(ctx) })
}

const (
	sqlBackend = `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1`
	// The locks of class "carp" in ASCII are those of presence.
	sqlLosePresence   = `SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = 1667330672`
	sqlEndLockSession = `SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory' AND granted`
	sqlEndSessions    = `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`
)

func (s *site) endSessions(ctx context.Context, st step, f *record.Fault) error {
	db, err := s.open()
	if err != nil {
		return err
	}
	defer db.Close()
	statement := sqlEndLockSession
	switch st.kind {
	case endSessions:
		statement, f.Target = sqlEndSessions, "postgres"
	case losePresence:
		statement, f.Target = sqlLosePresence, "launchers"
	}
	var ended int
	f.Began = time.Now()
	if err := db.QueryRowContext(ctx, statement).Scan(&ended); err != nil {
		return err
	}
	if st.kind != endSession {
		f.Ended = time.Now()
	}
	return nil
}

func (s *site) strikeLink(ctx context.Context, st step, victim *child, f *record.Fault) error {
	link := s.toStore[victim.name]
	f.Began = time.Now()
	switch st.kind {
	case blackHole:
		link.Set([]proxy.Mode{proxy.BlackHole, proxy.Mute, proxy.Deaf}[st.pick%3])
		_, err := s.flows(ctx, f.Began, f.Epoch, f.Shards)
		sleep(ctx, st.length-time.Since(f.Began))
		link.Set(proxy.Pass)
		f.Ended = time.Now()
		return err
	case launcherHole:
		hole := s.toLaunch[victim.name]
		hole.Set([]proxy.Mode{proxy.BlackHole, proxy.Mute, proxy.Deaf}[st.pick%3])
		sleep(ctx, st.length)
		hole.Set(proxy.Pass)
	case resetLinks:
		link.Reset()
	case slowStore:
		link.Delay(50*time.Millisecond + time.Duration(st.pick%100)*time.Millisecond)
		sleep(ctx, st.length)
		link.Delay(0)
	default:
		return fmt.Errorf("the rig does not know the fault %q", st.kind)
	}
	f.Ended = time.Now()
	return nil
}

// sleep waits; what lies between two faults is time.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
