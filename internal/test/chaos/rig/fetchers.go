package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// fetcherCount is how many workers fetch runs.
const fetcherCount = 3

// startFetchers starts the workers of the queue that is pulled.
func (s *site) startFetchers(o Options, logs string) error {
	pulled := slices.IndexFunc(record.Queues, func(q record.Queue) bool { return q.Delivery == record.Pull })
	answering := s.launchers
	if len(answering) == 0 { // one process does everything
		answering = s.workers
	}
	var servers []string
	for _, c := range answering {
		servers = append(servers, c.httpAddr)
	}
	for i := range fetcherCount {
		name := fmt.Sprint("fetcher-", i+1)
		one, err := newChild(s.folder, logs, name, o.Oracle, []string{
			"-worker", name, "-queue", record.Queues[pulled].QueueID, "-servers", strings.Join(servers, ","), "-slots", fmt.Sprint(record.WorkerSlots),
			"-folder", s.folder, "-seed", fmt.Sprint(o.Seed), "-temper", s.dose.temper,
		}, nil)
		if err != nil {
			return err
		}
		s.fetchers = append(s.fetchers, one)
		if err := one.start(); err != nil {
			return err
		}
	}
	return nil
}

func (s *site) strikeFetcher(ctx context.Context, st step, f *record.Fault) error {
	if len(s.fetchers) == 0 {
		return errors.New("the dose has no pull workers")
	}
	victim := s.fetchers[st.pick%len(s.fetchers)]
	f.Target, f.Began = victim.name, time.Now()
	if st.kind == stopFetcher {
		victim.signal(syscall.SIGSTOP)
		sleep(ctx, st.length)
		victim.signal(contSignal)
	} else {
		victim.kill()
		if st.pick%3 == 0 {
			sleep(ctx, st.length)
		}
		if err := victim.start(); err != nil {
			return err
		}
	}
	f.Ended = time.Now()
	return nil
}
