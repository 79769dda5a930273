package logthrottle_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/internal/logthrottle"
)

// leftOutIn adds up the counts in a log.
func leftOutIn(text string) (sum int) {
	for _, found := range regexp.MustCompile(`left_out=(\d+)`).FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(found[1])
		sum += n
	}
	return sum
}

func TestEachPeerHasOneLineASecondAndTheCountsMissNothing(t *testing.T) {
	for _, c := range []struct {
		name  string
		peers []string // each calls 100 times a second, for ten seconds
		lines int      // at most
	}{
		{"one peer", []string{"192.0.2.1:1"}, 12},
		{"one peer with a port for each call", []string{"192.0.2.1:1", "192.0.2.1:2", "[::ffff:192.0.2.1]:3", "192.0.2.1"}, 12},
		{"one IPv6 network", []string{"[2001:db8::1]:1", "[2001:db8::2]:1", "2001:db8::ffff:1"}, 12},
		{"two peers", []string{"192.0.2.1:1", "192.0.2.2:1"}, 24},
		{"callers without an address", []string{"", "x"}, 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				log := slog.New(slog.NewTextHandler(&out, nil))
				p := logthrottle.NewPerPeer(log, "lines left out")
				ctx, end := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); p.Run(ctx) }()
				calls, written := 0, 0
				for range 1000 {
					for _, peer := range c.peers {
						calls++
						if n, ok := p.Admit(peer); ok {
							written++
							log.Info("call", logthrottle.LeftOut, n)
						}
					}
					<-time.After(10 * time.Millisecond)
				}
				end()
				<-ended
				lines := strings.Count(out.String(), "\n")
				if lines > c.lines || written+leftOutIn(out.String()) != calls {
					t.Errorf("%d lines; %d written and %d counted of %d calls:\n%s", lines, written, leftOutIn(out.String()), calls, &out)
				}
			})
		})
	}
}

func TestAPeerThatStopsCallingHasItsCountLoggedAndIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := logthrottle.NewPerPeer(slog.New(slog.NewTextHandler(&out, nil)), "lines left out")
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go p.Run(ctx)
		for range 5 {
			p.Admit("192.0.2.1:1")
		}
		<-time.After(5 * time.Second)
		synctest.Wait()
		if !strings.Contains(out.String(), `msg="lines left out" peer=192.0.2.1 left_out=4`) || strings.Count(out.String(), "\n") != 1 {
			t.Errorf("logged:\n%s", &out)
		}
		if n := p.Peers(); n != 0 {
			t.Errorf("%d peers are remembered", n)
		}
	})
}

func TestManyPeersTakeBoundedMemoryAndLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := logthrottle.NewPerPeer(slog.New(slog.NewTextHandler(&out, nil)), "lines left out")
		written := 0
		const calls = 20_000
		for i := range calls {
			if _, ok := p.Admit(fmt.Sprintf("10.0.%d.%d:1", i/256, i%256)); ok {
				written++
			}
		}
		if written > 257 || p.Peers() > 257 {
			t.Errorf("%d lines in an instant, %d peers remembered", written, p.Peers())
		}
		ctx, end := context.WithCancel(t.Context())
		end()
		p.Run(ctx)
		if !strings.Contains(out.String(), `peer="other peers" left_out=`) || written+leftOutIn(out.String()) != calls {
			t.Errorf("%d written and %d counted of %d:\n%s", written, leftOutIn(out.String()), calls, &out)
		}
	})
}
