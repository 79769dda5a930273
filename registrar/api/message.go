package api

import (
	"context"
	"encoding/json"

	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/rawjson"
	"github.com/carillon/carillon/internal/schedule"
)

// RunMessages returns a function for the runs of messages about ends: each is GetRun's answer of
// REST, as it was at the end.
func RunMessages(runs Runs, links Links) func(context.Context, schedule.Key) (json.RawMessage, error) {
	s := &runServer{runs: runs, links: links}
	return func(ctx context.Context, key schedule.Key) (json.RawMessage, error) {
		found, err := runs.GetRun(ctx, key)
		if err != nil {
			return nil, err
		}
		run := ledger.AsEnded(*found)
		resp, err := s.shown(ctx, &run)
		if err != nil {
			return nil, err
		}
		return rawjson.Marshal(proto.Message(resp.GetRun()))
	}
}
