package alert_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/alert"
)

// attempt is one delivery attempt as the receiver saw it.
type attempt struct {
	at time.Time
	id string
}

// outside answers for every receiver by the first word of its host, and records the calls.
type outside struct {
	t        *testing.T
	mu       sync.Mutex
	attempts map[string][]attempt
	well     map[string]bool // it answers 204
	read     int             // bytes of the endless answer
	closed   bool
}

func newOutside(t *testing.T) *outside {
	return &outside{t: t, attempts: make(map[string][]attempt), well: make(map[string]bool)}
}

func (o *outside) RoundTrip(req *http.Request) (*http.Response, error) {
	name, _, _ := strings.Cut(req.URL.Host, ".")
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	unix, err := strconv.ParseInt(req.Header.Get("webhook-timestamp"), 10, 64)
	if err != nil || time.Since(time.Unix(unix, 0)) >= time.Second {
		o.t.Errorf("%s: webhook-timestamp %q at %s", name, req.Header.Get("webhook-timestamp"), time.Now())
	}
	id := req.Header.Get("webhook-id")
	if want := signed(id, req.Header.Get("webhook-timestamp"), body); req.Header.Get("webhook-signature") != want {
		o.t.Errorf("%s: a wrong signature", name)
	}
	o.mu.Lock()
	o.attempts[name] = append(o.attempts[name], attempt{time.Now(), id})
	well := o.well[name]
	o.mu.Unlock()
	answer := func(status int, header http.Header, body io.ReadCloser) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: header, Body: body, Request: req}, nil
	}
	switch {
	case well:
		return answer(http.StatusNoContent, nil, http.NoBody)
	case name == "broken":
		return answer(http.StatusInternalServerError, nil, http.NoBody)
	case name == "moved":
		return answer(http.StatusPermanentRedirect, http.Header{"Location": {"http://well.example/hook"}}, http.NoBody)
	case name == "gone":
		return answer(http.StatusGone, nil, http.NoBody)
	case name == "busy":
		return answer(http.StatusTooManyRequests, http.Header{"Retry-After": {"1800"}}, http.NoBody)
	case name == "silent":
		<-req.Context().Done()
		return nil, req.Context().Err()
	case name == "refusing":
		return nil, errors.New("dial tcp 192.0.2.1:443: connection refused")
	case name == "endless":
		return answer(http.StatusOK, nil, endless{o})
	}
	return answer(http.StatusNoContent, nil, http.NoBody)
}

// endless is an answer that never ends.
type endless struct{ o *outside }

func (e endless) Read(p []byte) (int, error) {
	e.o.mu.Lock()
	defer e.o.mu.Unlock()
	e.o.read += len(p)
	return len(p), nil
}

func (e endless) Close() error {
	e.o.mu.Lock()
	defer e.o.mu.Unlock()
	e.o.closed = true
	return nil
}

func (o *outside) of(name string) []attempt {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.attempts[name]
}

// turnWell mends a receiver.
func (o *outside) turnWell(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.well[name] = true
}

// inBubble runs a Watch over a real SQLite file on a simulated clock, with the receivers of
// outside as targets.
func inBubble(t *testing.T, names []string, test func(*testing.T, *alert.Desk, *outside)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, o := newSite(t, engines[0]), newOutside(t)
		urls := make([]string, len(names))
		for i, name := range names {
			urls[i] = "http://" + name + ".example/hook?token=hidden"
		}
		w := s.newWatch(t, &http.Client{Transport: o, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, urls...)
		ctx, end := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = w.Run(ctx) }()
		defer func() { end(); <-done }() // also after t.Fatal: a bubble that ends before its goroutines panics
		test(t, alert.NewDesk(s.store, w), o)
	})
}

// outbox are the newest messages by the first word of their host.
func outbox(t *testing.T, desk *alert.Desk) map[string]schedule.AlertDelivery {
	t.Helper()
	found, err := desk.Deliveries(t.Context(), schedule.DeliveryFilter{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	newest := make(map[string]schedule.AlertDelivery)
	for i := len(found) - 1; i >= 0; i-- {
		name, _, _ := strings.Cut(found[i].Host, ".")
		newest[name] = found[i]
	}
	return newest
}

func ask(t *testing.T, desk *alert.Desk) {
	t.Helper()
	if _, err := desk.Test(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
}

// The schedule of docs/alerts.md: 5 s, twice as long each time up to an hour,
// each a fifth more or less, for 24 hours. An outbox is looked at every 2 s.
func checkSchedule(t *testing.T, name string, attempts []attempt, took time.Duration) {
	t.Helper()
	for i, a := range attempts[1:] {
		want := min(5*time.Second<<min(i, 20), time.Hour)
		gap := a.at.Sub(attempts[i].at) - took
		if gap < want*8/10 || gap > want*12/10+2*time.Second {
			t.Errorf("%s: attempt %d came %s behind the one before, want %s, a fifth more or less", name, i+2, gap, want)
		}
		if a.id != attempts[0].id {
			t.Errorf("%s: attempt %d has the id %s, the first had %s", name, i+2, a.id, attempts[0].id)
		}
	}
}

func TestLongAnUndeliverableMessageIsRetriedForADayAndKeepsTheReason(t *testing.T) {
	if raceFactor > 1 {
		t.Skip("a day of SQLite takes minutes under the race detector, which the shorter tests are for")
	}
	inBubble(t, []string{"broken", "silent"}, func(t *testing.T, desk *alert.Desk, o *outside) {
		ask(t, desk)
		time.Sleep(22 * time.Hour)
		for name, d := range outbox(t, desk) {
			if d.State != schedule.DeliveryPending || d.NextAt.Before(time.Now()) {
				t.Errorf("%s: after 22 hours it is %s until %s, want it on its way", name, d.State, d.NextAt)
			}
		}
		time.Sleep(2*time.Hour + time.Minute)
		for name, want := range map[string]struct {
			status int32
			says   string
			took   time.Duration
		}{
			"broken": {500, "the target answered 500", 0},
			"silent": {0, "no answer within 15s", 15 * time.Second},
		} {
			d := outbox(t, desk)[name]
			if d.State != schedule.DeliveryDead || d.LastStatus != want.status || d.LastError != want.says || d.EndedAt.IsZero() {
				t.Errorf("%s: it is kept as %s, %d, %q, ended %s", name, d.State, d.LastStatus, d.LastError, d.EndedAt)
			}
			checkSchedule(t, name, o.of(name), want.took)
			if n := len(o.of(name)); int(d.Attempts) != n {
				t.Errorf("%s: %d attempts are kept of %d", name, d.Attempts, n)
			}
			if lasted := o.of(name)[d.Attempts-1].at.Sub(d.CreatedAt); lasted < 22*time.Hour+45*time.Minute {
				t.Errorf("%s: the last attempt was %s behind the first, want it in the last hour and a fifth of 24", name, lasted)
			}
		}
		againByHand(t, desk, o)
	})
}

// againByHand redelivers a failed message: to a receiver that is still broken, which restarts the
// retries, and then to one that has recovered.
func againByHand(t *testing.T, desk *alert.Desk, o *outside) {
	t.Helper()
	before := len(o.of("broken"))
	dead := outbox(t, desk)["broken"]
	redeliver := func() {
		if d, err := desk.Redeliver(t.Context(), dead.DeliveryID); err != nil || d.State != schedule.DeliveryPending || d.Attempts != 0 || !d.EndedAt.IsZero() {
			t.Fatalf("redeliver: %+v, %v", d, err)
		}
	}
	time.Sleep(90 * time.Minute)
	if len(o.of("broken")) != before {
		t.Error("what was given up is sent again by itself")
	}
	redeliver()
	time.Sleep(3 * time.Hour) // it waits for an hour between two attempts now
	checkSchedule(t, "broken, by hand", o.of("broken")[before:], 0)
	o.turnWell("broken")
	waiting := outbox(t, desk)["broken"]
	if left := time.Until(waiting.NextAt); waiting.State != schedule.DeliveryPending || left < 2*time.Minute {
		t.Fatalf("it waits %s as %s", left, waiting.State)
	}
	redeliver()
	time.Sleep(3 * time.Second)
	d, all := outbox(t, desk)["broken"], o.of("broken")
	if d.State != schedule.DeliveryDelivered || d.LastError != "" || d.LastStatus != 204 || d.Attempts != 1 || all[len(all)-1].id != all[0].id {
		t.Errorf("what waited for an hour is not delivered at once by hand: %+v", d)
	}
}

func TestAReceiversAnswerIsStoredWithoutTheSecretOfItsURL(t *testing.T) {
	inBubble(t, []string{"moved", "refusing", "busy", "well"}, func(t *testing.T, desk *alert.Desk, o *outside) {
		ask(t, desk)
		time.Sleep(time.Minute)
		for name, want := range map[string]struct {
			state  schedule.DeliveryState
			status int32
			says   string
		}{
			"moved":    {schedule.DeliveryPending, 308, "the target answered 308, and redirects are not followed: set the final address"},
			"refusing": {schedule.DeliveryPending, 0, "dial tcp 192.0.2.1:443: connection refused"},
			"busy":     {schedule.DeliveryPending, 429, "the target answered 429"},
			"well":     {schedule.DeliveryDelivered, 204, ""},
		} {
			d := outbox(t, desk)[name]
			if d.State != want.state || d.LastStatus != want.status || d.LastError != want.says || strings.Contains(d.Host+d.LastError, "hidden") {
				t.Errorf("%s: it is kept as %+v", name, d)
			}
		}
		if n := len(o.of("well")); n != 1 {
			t.Errorf("what stands beside them was delivered %d times: nobody follows the redirect to it", n)
		}
		if raceFactor > 1 {
			return // of the rest, for the same reason as the test of a day
		}
		time.Sleep(2 * time.Hour)
		busy := o.of("busy")
		for i, a := range busy[1:] {
			if gap := a.at.Sub(busy[i].at); gap < 30*time.Minute || gap > 72*time.Minute+2*time.Second {
				t.Errorf("one who asks for half an hour is asked again after %s", gap)
			}
		}
		if len(busy) < 3 {
			t.Errorf("it was asked %d times in two hours", len(busy))
		}
	})
}

func TestAReceiverThatIsGoneIsAskedByHandOnly(t *testing.T) {
	inBubble(t, []string{"gone", "well"}, func(t *testing.T, desk *alert.Desk, o *outside) {
		ask(t, desk)
		time.Sleep(10 * time.Minute)
		d := outbox(t, desk)["gone"]
		if d.State != schedule.DeliveryDead || d.LastStatus != 410 || d.LastError != "the target answered 410 (gone)" || !d.Disabled || len(o.of("gone")) != 1 {
			t.Errorf("it is %+v after %d attempts", d, len(o.of("gone")))
		}
		ask(t, desk) // a test is manual too
		time.Sleep(time.Minute)
		if len(o.of("gone")) != 2 {
			t.Errorf("a test asked it %d times more, want once", len(o.of("gone"))-1)
		}
		o.turnWell("gone")
		ask(t, desk)
		time.Sleep(time.Minute)
		if d := outbox(t, desk)["gone"]; d.State != schedule.DeliveryDelivered || d.Disabled {
			t.Errorf("back again it is %+v", d)
		}
	})
}

func TestAnAnswerWithoutEndIsReadToItsFirstPageOnly(t *testing.T) {
	inBubble(t, []string{"endless"}, func(t *testing.T, desk *alert.Desk, o *outside) {
		ask(t, desk)
		time.Sleep(time.Minute)
		if d := outbox(t, desk)["endless"]; d.State != schedule.DeliveryDelivered || len(o.of("endless")) != 1 {
			t.Errorf("it is %+v", d)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.read > 8<<10 || !o.closed {
			t.Errorf("%d bytes were read of it; closed: %v", o.read, o.closed)
		}
	})
}

// Many messages to a target that never answers do not delay another target.
func TestAHangingTargetDoesNotDelayAnother(t *testing.T) {
	inBubble(t, []string{"silent", "well"}, func(t *testing.T, desk *alert.Desk, o *outside) {
		const many = 200
		for range many {
			ask(t, desk)
		}
		time.Sleep(5 * time.Second)
		if n := len(o.of("well")); n != many {
			t.Errorf("after five seconds %d of %d have arrived", n, many)
		}
		if n := len(o.of("silent")); n != 8 {
			t.Errorf("the one that hangs has %d calls at once, want 8", n)
		}
	})
}
