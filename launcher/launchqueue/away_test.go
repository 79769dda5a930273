package launchqueue_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/launchqueue"
)

// wire is the way to a Redis, which can be cut and mended.
type wire struct {
	net.Listener
	to string

	mu   sync.Mutex
	cut  bool
	open map[net.Conn]bool
	done sync.WaitGroup
}

// wired gives the rig's Redis another address, through a wire.
func (r *rig) wired() (*wire, string) {
	r.Helper()
	u, err := url.Parse(r.url)
	if err != nil {
		r.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.Fatal(err)
	}
	w := &wire{Listener: lis, to: u.Host, open: make(map[net.Conn]bool)}
	w.done.Go(w.accept)
	r.Cleanup(func() { _ = lis.Close(); w.set(true); w.done.Wait() })
	u.Host = lis.Addr().String()
	return w, u.String()
}

func (w *wire) accept() {
	for {
		near, err := w.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", w.to)
		if err != nil || !w.add(near, far) {
			_ = near.Close()
			continue
		}
		w.done.Go(func() { _, _ = io.Copy(far, near); w.hangUp(near, far) })
		w.done.Go(func() { _, _ = io.Copy(near, far); w.hangUp(near, far) })
	}
}

func (w *wire) add(near, far net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		_ = far.Close()
		return false
	}
	w.open[near], w.open[far] = true, true
	return true
}

func (w *wire) hangUp(conns ...net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(w.open, c)
	}
}

// set cuts or mends the wire; what is open when it is cut is lost.
func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	for c := range w.open {
		_ = c.Close()
	}
}

// lines counts what is logged, by message.
type lines struct {
	mu   sync.Mutex
	seen map[string]int
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lines) WithGroup(string) slog.Handler            { return l }
func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[r.Message]++
	return nil
}

func (l *lines) count(begin string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for message, times := range l.seen {
		if strings.HasPrefix(message, begin) {
			n += times
		}
	}
	return n
}

func TestAConsumerOutlivesARedisThatIsAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, openSQLite(t))
	w, through := r.wired()
	w.set(true)
	client, err := launchqueue.Open(through)
	if err != nil {
		t.Fatal(err)
	}
	log := &lines{seen: make(map[string]int)}
	t.Cleanup(func() { _ = client.Close() })
	r.run(launchqueue.Options{Redis: client, Launcher: r.launcher(), Logger: slog.New(log)})
	launches := r.claim(20)
	r.publish(launches[:10]...)
	r.eventually("it is said that Redis is away", func() error {
		if log.count("launch queue unavailable") == 0 {
			return errors.New("nothing is said")
		}
		return nil
	})
	w.set(false)
	r.settled(launches[:10], schedule.StatusSuccess)
	for range 3 { // with connections that are open and then reset
		w.set(true)
		w.set(false)
	}
	r.publish(launches[10:]...)
	r.settled(launches, schedule.StatusSuccess)
	r.once(launches)
	r.eventually("nothing is left in hand", func() error { return r.inHand(0) })
	if n := log.count("launch queue unavailable"); n != 1 {
		t.Errorf("it was said %d times within a minute that Redis is away", n)
	}
	if log.count("launch queue available again") == 0 {
		t.Error("nobody says that Redis is back")
	}
}
