package preview_test

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon/carillon/internal/app/simulate"
	"github.com/carillon/carillon/internal/cli"
	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/store/memory"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/api"
	"github.com/carillon/carillon/worker"
)

// realServer is the registrar's side, over a ledger in memory.
func realServer(t *testing.T) (address string) {
	t.Helper()
	quiet, store := slog.New(slog.DiscardHandler), memory.New(memory.Options{})
	reg := registrar.New(registrar.Options{
		Schedules: store, Runs: store, Workflows: store, Shares: store, Grants: store, Logger: quiet, Simulator: simulate.New(worker.Config{}),
		Config: registrar.Config{CanCancel: true},
	})
	server := api.NewServer(quiet, nil)
	api.Register(server, api.Services{Writer: reg, Reader: reg, Workflows: reg, Grants: reg, Runs: reg})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(lis) }) // its end is Stop's
	t.Cleanup(func() { server.Stop(); serving.Wait() })
	return lis.Addr().String()
}

// Every command of docs/foresight.md prints what the page shows.
func TestExamplesOfForesightAreTrue(t *testing.T) {
	const page = "../../../docs/foresight.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	address := realServer(t)
	examples := regexp.MustCompile("(?s)```sh\n(carillon [^\n]*)\n```\n\n```text\n(.*?)```")
	played := 0
	want := examples.ReplaceAllStringFunc(string(text), func(example string) string {
		played++
		line := examples.FindStringSubmatch(example)[1]
		var out, errs bytes.Buffer
		c := &command.CLI{
			In: strings.NewReader(""), Out: &out, ErrOut: &errs, Now: func() time.Time { return clitest.Noon },
			Env: func(name string) string { return map[string]string{"CARILLON_SERVER": address}[name] },
		}
		args := clitest.Split(strings.ReplaceAll(line, "docs/examples/", "../../../docs/examples/"))
		if code := cli.Run(t.Context(), c, args[1:]); code != command.ExitOK {
			t.Errorf("%s: exit %d: %s", line, code, errs.String())
		}
		return "```sh\n" + line + "\n```\n\n```text\n" + out.String() + "```"
	})
	if played < 3 {
		t.Errorf("%d examples were found in %s, want 3 or more", played, page)
	}
	if *clitest.Update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(text), want); diff != "" {
		t.Errorf("%s (run the test with -update):\n%s", page, diff)
	}
}
