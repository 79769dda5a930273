package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
)

// crashFile names the file that a child of this test works on until it is killed.
const crashFile = "CARILLON_TEST_CRASH_FILE"

// A process is killed in the middle of writing, again and again. Whatever it
// said that it had committed is there, no slot before the cursor is without its
// row, and the file is sound.
func TestKilledProcessesLoseNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	const kills, seed = 12, 1
	path := filepath.Join(t.TempDir(), "carillon.db")
	create(t, open(t, path, sqlite.Options{}), everySecond("each-second", noon))
	random := rand.New(rand.NewPCG(seed, seed))
	said := make(map[schedule.Key]schedule.Status)
	for range kills {
		killAfter(t, path, 1+random.IntN(150), said)
		checkFile(t, path, said)
	}
}

// killAfter starts a child, lets it say so many things and kills it.
func killAfter(t *testing.T, path string, lines int, said map[schedule.Key]schedule.Status) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), crashFile+"="+path)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	read := bufio.NewScanner(out)
	for n := 0; read.Scan(); n++ { // what it had said before it died counts too
		var status, hex string
		if _, err := fmt.Sscan(read.Text(), &status, &hex); err != nil {
			break // cut off by the kill
		}
		key, err := schedule.ParseKey(hex)
		if err != nil {
			break
		}
		said[key] = schedule.Status(status)
		if n == lines {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = child.Wait() // killed
}

func checkFile(t *testing.T, path string, said map[schedule.Key]schedule.Status) {
	t.Helper()
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	var verdict string
	if err := db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Fatalf("the file is not sound: %s, %v", verdict, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := open(t, path, sqlite.Options{})
	for key, status := range said {
		run, err := s.GetRun(t.Context(), key)
		if err != nil {
			t.Fatalf("%s was said to be %s: %v", key, status, err)
		}
		if run.Status != status && !status.CanBecome(run.Status) && !(status == schedule.StatusPlanned && run.Status == schedule.StatusSuccess) {
			t.Errorf("%s was said to be %s and is %s", key, status, run.Status)
		}
	}
	row, err := s.GetSchedule(t.Context(), "each-second")
	if err != nil {
		t.Fatal(err)
	}
	slots := 0
	for at := noon.Add(time.Second); at.Before(row.NextRunAt); at = at.Add(time.Second) {
		slots++
		if _, err := s.GetRun(t.Context(), schedule.SlotKey("each-second", at)); err != nil {
			t.Errorf("slot %s lies before the cursor: %v", at, err)
		}
	}
	if slots == 0 {
		t.Error("nothing was planned")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// liveUntilKilled plans, claims and settles one slot after the other and says
// what it has committed.
func liveUntilKilled(path string, out io.Writer) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, "sqlite:"+path, sqlite.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	term, _, err := s.Takeover(ctx, schedule.TakeoverRequest{Holder: fmt.Sprint(os.Getpid()), TTL: time.Hour, LockHeld: true, Now: noon})
	if err != nil {
		return err
	}
	l := shard{store: s, term: term}
	say := func(status schedule.Status, key schedule.Key) {
		if _, err := fmt.Fprintln(out, status, key); err != nil {
			panic(err) // nobody listens any more
		}
	}
	for {
		row, err := s.GetSchedule(ctx, "each-second")
		if err != nil {
			return err
		}
		now := row.NextRunAt
		planned, err := s.Plan(ctx, schedule.PlanRequest{Term: term, Now: now, Horizon: now, Grace: time.Minute, Limit: 1}, planOne)
		if err != nil {
			return err
		}
		for i := range planned.Rows {
			say(schedule.StatusPlanned, planned.Rows[i].Key)
		}
		claimed, err := l.pass(ctx, now)
		if err != nil {
			return err
		}
		keys := l.state.SendAgain(now, 100, nil)
		again, err := s.Reclaim(ctx, ledger.ReclaimRequest{Term: term, Now: now, Lease: 30 * time.Second, Keys: keys})
		if err != nil {
			return err
		}
		l.state.SentAgain(now, keys, again.Read)
		for _, l := range append(claimed.Launches, again.Launches...) {
			say(schedule.StatusLaunching, l.Run.Key)
			_, err := s.Settle(ctx, term, now, []schedule.Settlement{{Key: l.Run.Key, To: schedule.StatusSuccess, LaunchedAt: now}})
			if err != nil {
				return err
			}
			say(schedule.StatusSuccess, l.Run.Key)
		}
	}
}
