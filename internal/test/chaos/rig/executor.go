package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// strikeExecutor lets the executor fail for a while. Every other time the leader is
// killed meanwhile.
func (s *site) strikeExecutor(ctx context.Context, st step, victim *child, f *record.Fault) error {
	f.Target = "executor"
	until := time.Now().Add(st.length)
	answer, err := probe.Post(fmt.Sprintf("http://%s/incident?kind=%s&for=%s", s.oracle.httpAddr, incidentOf[st.kind], st.length), "", http.NoBody)
	if err != nil {
		return err
	}
	if err := answer.Body.Close(); err != nil {
		return err
	}
	if st.pick%2 == 0 {
		sleep(ctx, st.length/4)
		victim.kill()
		if err := s.again(ctx, victim, f); err != nil {
			return err
		}
	}
	sleep(ctx, time.Until(until))
	f.Ended = time.Now()
	return nil
}

var incidentOf = map[string]string{record.ExecutorDown: "down", record.ExecutorBroken: "broken", record.ExecutorHung: "hung"}
