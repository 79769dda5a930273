package server_test

import (
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestResignWaitsForTheNextEpoch(t *testing.T) {
	f := clitest.NewAnsweringServer(t)
	f.Answer("Resign", &carillonv1.ResignResponse{Leadership: &carillonv1.Leadership{WorkerId: "wa", Epoch: 17}})
	asked := 0
	f.Answers["ListWorkers"] = func(proto.Message) (proto.Message, error) {
		led := &carillonv1.Leadership{WorkerId: "wa", Epoch: 17}
		switch asked++; asked {
		case 2: // what a database that restarts looks like
			return nil, status.Error(codes.Unavailable, "away")
		case 3:
			led.Expired = true
		case 4: // another shard's leader is no answer
			led.Shard, led.Epoch = 1, 18
		case 5:
			led.WorkerId, led.Epoch = "wb", 19
		}
		return &carillonv1.ListWorkersResponse{Leaderships: []*carillonv1.Leadership{led}}, nil
	}
	got := f.Run(t, "worker", "resign", "--wait")
	if want := "shard 0 moved from worker wa (epoch 17) to wb (epoch 19) in "; got.Code != command.ExitOK || !strings.HasPrefix(got.Out, want) {
		t.Errorf("exit %d: %s%s; want %q and a time", got.Code, got.ErrOut, got.Out, want)
	}
	if asked != 5 {
		t.Errorf("asked %d times for the next leader, want 5", asked)
	}
}

func TestResignOfAShardThatNobodyLeadsIsNotFound(t *testing.T) {
	f := clitest.NewAnsweringServer(t)
	f.Refuse("Resign", status.Error(codes.NotFound, "no worker leads shard 5"))
	if got := f.Run(t, "worker", "resign", "--shard", "5"); got.Code != command.ExitNotFound || !strings.Contains(got.ErrOut, "no worker leads shard 5") {
		t.Errorf("exit %d: %s", got.Code, got.ErrOut)
	}
}

func TestAShardThatCannotBeIsRefusedInWords(t *testing.T) {
	for _, c := range []struct {
		name  string
		shard string
	}{
		{name: "below the first", shard: "-1"},
		{name: "beyond the last that can be", shard: "64"},
		{name: "no number", shard: "two"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := clitest.Run(t, clitest.Env{}, "worker", "resign", "--shard", c.shard)
			if want := `"` + c.shard + `" is not a whole number from 0 to 63`; got.Code != command.ExitUsage || !strings.Contains(got.ErrOut, want) {
				t.Errorf("exit %d: %s; want %s", got.Code, got.ErrOut, want)
			}
		})
	}
}

func TestShardsAreSetInTheDatabaseAndSayWhatIsToBeDone(t *testing.T) {
	env := []string{"--data-dir", t.TempDir()}
	run := func(wantCode int, want string, args ...string) {
		t.Helper()
		got := clitest.Run(t, clitest.Env{}, append(args, env...)...)
		if got.Code != wantCode || !strings.Contains(got.Out+got.ErrOut, want) {
			t.Errorf("%v: exit %d: %s%s; want %q", args, got.Code, got.ErrOut, got.Out, want)
		}
	}
	run(command.ExitFailed, "carillon migrate", "shards", "get")
	run(command.ExitOK, "", "migrate")
	run(command.ExitOK, "SHARDS is not set yet", "shards", "get")
	run(command.ExitOK, "Restart every worker with SHARDS=4 now", "shards", "set", "4")
	run(command.ExitOK, "SHARDS is already 4", "shards", "set", "4")
	run(command.ExitOK, "4\n", "shards", "get")
	run(command.ExitOK, "SHARDS is now 2 (was 4)", "shards", "set", "2")
	run(command.ExitUsage, `"65" is not a whole number from 1 to 64`, "shards", "set", "65")
	run(command.ExitUsage, `"two" is not a whole number`, "shards", "set", "two")
	run(command.ExitFailed, "SHARDS is 1 here and 2 in the database", "serve", "--executor-url", "http://127.0.0.1:1/", "--http-addr", "127.0.0.1:0",
		"--grpc-addr", "127.0.0.1:0", "--config", emptyFile(t))
}

func emptyFile(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "carillon.yaml")
	clitest.WriteFile(t, path, "")
	return path
}
