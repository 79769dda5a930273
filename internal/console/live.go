package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/metadata"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/auth/gate"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const (
	pingEvery  = 15 * time.Second // a connection that died is noticed by writing
	retryAfter = 3 * time.Second  // before a browser opens the stream again
)

// liveRun is the event that pages receive for a changed run.
type liveRun struct {
	Key      string `json:"key"`
	Schedule string `json:"schedule"`
	Status   string `json:"status"`
}

// serveLive sends an event for each run that changes, like WatchRuns, as text/event-stream:
// browsers reconnect by themselves.
func (c *Console) serveLive(w http.ResponseWriter, r *http.Request) {
	id, err := c.identify(r)
	if err != nil {
		http.Error(w, "sign in", http.StatusUnauthorized)
		return
	}
	closed, most := c.live.open(id)
	if closed == nil {
		http.Error(w, fmt.Sprintf("%d pages with live updates are open already; close one", most), http.StatusServiceUnavailable)
		return
	}
	defer closed()
	v := c.newVisit(r, id)
	// The watch ends when the visitor would no longer be let in.
	ctx, cancel := context.WithCancel(gate.WithCredentials(v.asking(r.Context()), shownIn(r)))
	defer cancel()
	watch, err := c.runs.WatchRuns(ctx, &carillonv1.WatchRunsRequest{ScheduleId: v.param("schedule")})
	if err == nil {
		err = refusalOf(watch)
	}
	if err != nil {
		f := failureOf(err)
		http.Error(w, f.Title, f.code)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // proxies that buffer answers
	c.feed(ctx, cancel, w, watch)
}

// refusalOf waits until the watch is open or refused. A stream that is refused
// has no header, and only Recv returns its error.
func refusalOf(watch watchStream) error {
	header, err := watch.Header()
	if err == nil && header == nil {
		_, err = watch.Recv()
	}
	return err
}

// watchStream is WatchRuns as its client has it.
type watchStream interface {
	Header() (metadata.MD, error)
	Recv() (*carillonv1.WatchRunsResponse, error)
}

// livePages counts the pages with live updates. They are few, so one caller gets
// only a part of them.
type livePages struct {
	mu  sync.Mutex
	all int
	of  map[string]int // by caller; without a page it has no entry
}

// open counts a page until closed is called. closed is nil if most are open
// already.
func (l *livePages) open(id auth.Identity) (closed func(), most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	caller, limited := fmt.Sprintf("%q %q", id.Subject, id.Owner), id.Via != auth.ViaOpen // AUTH off: everyone is the same caller
	switch {
	case l.all >= maxStreams:
		return nil, maxStreams
	case limited && l.of[caller] >= maxCallerStreams:
		return nil, maxCallerStreams
	}
	l.all++
	l.of[caller]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all--
		if l.of[caller]--; l.of[caller] == 0 {
			delete(l.of, caller)
		}
	}, 0
}

// feed passes runs on until either side ends.
func (c *Console) feed(ctx context.Context, cancel context.CancelFunc, w http.ResponseWriter, watch watchStream) {
	control := http.NewResponseController(w)
	say := func(format string, args ...any) error {
		if _, err := fmt.Fprintf(w, format, args...); err != nil {
			return err
		}
		return control.Flush()
	}
	runs := make(chan *carillonv1.Run)
	var g errgroup.Group
	g.Go(func() error {
		defer close(runs)
		for {
			resp, err := watch.Recv()
			if err != nil {
				return err
			}
			select {
			case runs <- resp.GetRun():
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	err := say("retry: %d\nevent: open\ndata: {}\n\n", retryAfter.Milliseconds())
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for err == nil {
		select {
		case run, open := <-runs:
			if !open {
				err = errEnded
				break
			}
			text, _ := json.Marshal(liveRun{run.GetIdempotencyKey(), run.GetScheduleId(), run.GetStatus()}) // strings only
			err = say("event: run\ndata: %s\n\n", text)
		case <-ping.C:
			err = say(": still here\n\n")
		}
	}
	cancel()
	if ended := g.Wait(); errors.Is(err, errEnded) && ended != nil && ctx.Err() == nil {
		c.log.DebugContext(ctx, "live updates ended", "err", ended)
	}
}

var errEnded = errors.New("the watch has ended")
