package client

import (
	"github.com/carillon/carillon/internal/callstream"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

type (
	start       = carillonv1.RunLauncherStartRequest
	startAnswer = carillonv1.RunLauncherStartBatchAnswer
	// starts sends all starts over one StartBatch.
	starts = callstream.Stream[start, carillonv1.RunLauncherStartBatchRequest, carillonv1.RunLauncherStartBatchResponse, startAnswer]
)

func newStarts(rpc carillonv1.RunLauncherClient) *starts {
	return callstream.New(callstream.RPC[start, carillonv1.RunLauncherStartBatchRequest, carillonv1.RunLauncherStartBatchResponse, startAnswer]{
		Peer: "the launcher",
		Open: rpc.StartBatch,
		Message: func(calls []*start, withdrawn []uint64) *carillonv1.RunLauncherStartBatchRequest {
			return &carillonv1.RunLauncherStartBatchRequest{Starts: calls, Withdrawn: withdrawn}
		},
		Size: func(s *start) int { return len(s.GetInput()) },
		Answers: func(m *carillonv1.RunLauncherStartBatchResponse) ([]*startAnswer, bool) {
			return m.GetAnswers(), m.GetClosing()
		},
		Number: (*startAnswer).GetNumber,
		Fits:   func(s *start, a *startAnswer) bool { return a.GetIdempotencyKey() == s.GetIdempotencyKey() },
	})
}
