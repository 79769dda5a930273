package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// reservation is what REST says about one.
type reservation struct {
	ID       string    `json:"reservation_id"`
	Granted  bool      `json:"granted"`
	Position int       `json:"position"`
	Granting time.Time `json:"granted_at"`
	Ends     time.Time `json:"ends_at"`
}

func (s *jobSite) reserve(members string) reservation {
	s.Helper()
	var answer struct {
		Reservation reservation `json:"reservation"`
	}
	s.do("POST", "/v1/queues/q:reserve", `{`+members+`}`, &answer)
	return answer.Reservation
}

func (s *jobSite) reservations() []reservation {
	s.Helper()
	var answer struct {
		Reservations []reservation `json:"reservations"`
	}
	s.do("GET", "/v1/queues/q/reservations", nil, &answer)
	return answer.Reservations
}

// hasGot fails unless the executor has got just these jobs.
func (s *jobSite) hasGot(when string, names ...string) {
	s.Helper()
	if got := s.executor.got(); !slices.Equal(got, names) {
		s.Fatalf("%s the executor has got %v, want %v", when, got, names)
	}
}

// TestAReservationGoesBeforeTheQueueAndEndsWithItsClient: one job runs and five wait; the slot is
// reserved, granted after the one and before the five, and free after hold_ms.
func TestAReservationGoesBeforeTheQueueAndEndsWithItsClient(t *testing.T) {
	onBothStores(t, func(s *jobSite) {
		goOn := s.executor.stop()
		defer goOn()
		first := s.enqueue("first", "")
		s.await("first")
		names := []string{"first"}
		var waiting job
		for i := range 5 {
			names = append(names, fmt.Sprint("later", i))
			waiting = s.enqueue(names[i+1], `,"priority":100`)
		}
		r := s.reserve(`"hold_ms":1500,"request_id":"r1"`)
		if again := s.reserve(`"hold_ms":1500,"request_id":"r1"`); r.Granted || r.Position != 1 || again.ID != r.ID {
			s.Fatalf("reserved %+v, and again %+v", r, again)
		}
		if run := s.run(first.Key); run.Status != "ENQUEUED" && run.Status != "STARTED" {
			s.Fatalf("the job that runs is %s", run.Status)
		}
		goOn()
		var answer struct {
			Reservation reservation `json:"reservation"`
		}
		s.do("GET", "/v1/reservations/"+r.ID+"?wait_ms=30000", nil, &answer)
		if r = answer.Reservation; !r.Granted || r.Position != 0 {
			s.Fatalf("after the end of the first job: %+v", r)
		}
		s.hasGot("at the grant", "first")
		if run := s.run(first.Key); run.Status != "SUCCESS" || run.Attempt != 1 {
			s.Errorf("the job that ran is %s, attempt %d", run.Status, run.Attempt)
		}
		var explained struct {
			Sentences []string `json:"sentences"`
		}
		s.do("GET", "/v1/runs/"+waiting.Key+":explain", nil, &explained)
		if text := strings.Join(explained.Sentences, " "); !strings.Contains(text, "A slot of the queue is reserved by") {
			s.Errorf("explained: %s", text)
		}
		s.hasGot("while it is held", "first")
		s.await(names...) // its client does nothing
		s.executor.mu.Lock()
		next := s.executor.at[1]
		s.executor.mu.Unlock()
		if next.Before(r.Ends) {
			s.Errorf("the next job started at %s, and the slot was reserved until %s", clock(next), clock(r.Ends))
		}
		if status, _, _ := s.call("POST", "/v1/reservations/"+r.ID+":extend", `{}`); status != 404 {
			s.Errorf("an extension after its end: %d", status)
		}
		s.logs("reservation_expired", 1)
	})
}

// logs fails unless the log of the queue has an event so often.
func (s *jobSite) logs(kind string, want int) {
	s.Helper()
	var log struct {
		Events []struct {
			Kind string `json:"kind"`
		} `json:"events"`
	}
	s.do("GET", "/v1/queues/q/events", nil, &log)
	n := 0
	for _, e := range log.Events {
		if e.Kind == kind {
			n++
		}
	}
	if n != want {
		s.Errorf("the log has %s %d times, want %d", kind, n, want)
	}
}

// reserving is `carillon reserve` with a command that begins when the file began appears, and ends
// with code 9 once the file stop is there.
type reserving struct {
	*testing.T
	cmd         *exec.Cmd
	out         bytes.Buffer
	began, stop string
	ended       chan error
}

func (s *jobSite) reserving(args ...string) *reserving {
	s.Helper()
	dir := s.TempDir()
	r := &reserving{T: s.T, began: filepath.Join(dir, "began"), stop: filepath.Join(dir, "stop"), ended: make(chan error, 1)}
	script := fmt.Sprintf(`trap 'exit 5' TERM; echo "$CARILLON_RESERVATION_ID" > %s; while [ ! -e %s ]; do sleep 0.05; done; exit 9`, r.began, r.stop)
	r.cmd = exec.Command(binary(s.T), append(append([]string{"reserve", "q"}, args...), "--", "sh", "-c", script)...)
	r.cmd.Dir, r.cmd.Env, r.cmd.Stderr = dir, s.process.environ(), &r.out
	r.cmd.SysProcAttr = &syscall.SysProcAttr{}
	dieWithParent(r.cmd.SysProcAttr)
	if err := startChild(r.cmd); err != nil {
		s.Fatal(err)
	}
	go func() { r.ended <- r.cmd.Wait() }()
	s.Cleanup(func() {
		r.finish()
		_ = r.cmd.Process.Kill()
	})
	return r
}

func (r *reserving) hasBegun() bool {
	_, err := os.Stat(r.began)
	return err == nil
}

func (r *reserving) begins() {
	r.Helper()
	eventually(r.T, startBound, "the command has the slot", func() error {
		_, err := os.Stat(r.began)
		return err
	})
}

// finish lets the command end.
func (r *reserving) finish() {
	if err := os.WriteFile(r.stop, nil, 0o600); err != nil {
		r.Error(err)
	}
}

// exits fails unless `carillon reserve` ends with a code.
func (r *reserving) exits(want int) {
	r.Helper()
	select {
	case err := <-r.ended:
		exit, failed := errors.AsType[*exec.ExitError](err)
		if !failed || exit.ExitCode() != want {
			r.Errorf("it ended with %v, want code %d; it said:\n%s", err, want, r.out.String())
		}
	case <-time.After(startBound):
		r.Fatal("it does not end")
	}
}

// TestLongACommandHasItsReservedSlotThroughKills kills the only server while the command waits, and
// while it runs.
func TestLongACommandHasItsReservedSlotThroughKills(t *testing.T) {
	onBothStores(t, func(s *jobSite) {
		goOn := s.executor.stop()
		defer goOn()
		s.enqueue("first", "")
		s.await("first")
		s.enqueue("later", "")
		r := s.reserving("--wait", "5m")
		eventually(t, startBound, "it waits for the slot", func() error {
			if len(s.reservations()) != 1 {
				return errors.New("there is no reservation")
			}
			return nil
		})
		s.process.kill()
		s.process.startReady()
		if r.hasBegun() {
			t.Fatal("the command runs although the slot is taken")
		}
		goOn()
		r.begins()
		s.process.kill()
		s.process.startReady()
		if all := s.reservations(); len(all) != 1 || !all[0].Granted {
			t.Errorf("after the restart: %+v", all)
		}
		s.hasGot("while the command runs", "first")
		r.finish()
		r.exits(9)
		s.await("first", "later")
		if said := r.out.String(); !strings.Contains(said, "waiting for a slot of queue q, position 1") || strings.Contains(said, "lost") {
			t.Errorf("it said:\n%s", said)
		}
		s.logs("reservation_granted", 1)
		s.logs("reservation_released", 1)
	})
}

// TestASlotIsFreeAfterTheDeathOfItsCommand kills `carillon reserve`, and ends another one by SIGTERM.
func TestASlotIsFreeAfterTheDeathOfItsCommand(t *testing.T) {
	onBothStores(t, func(s *jobSite) {
		dead := s.reserving("--hold", "2s")
		dead.begins()
		s.enqueue("first", "")
		stopped := s.reserving("--hold", "30s")
		eventually(t, startBound, "the second waits", func() error {
			if len(s.reservations()) != 2 {
				return errors.New("there is one reservation")
			}
			return nil
		})
		killed := time.Now()
		if err := dead.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		stopped.begins()
		if early := 2*time.Second - time.Since(killed); early > time.Second { // it was extended at most 0.7 s before
			t.Errorf("the slot was free %s early", early)
		}
		s.hasGot("while the second command runs")
		if err := stopped.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		stopped.exits(5)
		s.await("first")
		s.logs("reservation_expired", 1)
		s.logs("reservation_released", 1)
	})
}
