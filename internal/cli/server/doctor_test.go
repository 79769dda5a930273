package server_test

import (
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
)

func TestDoctorSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("DATA_DIR", filepath.Join(dir, "none"))
	t.Setenv("HTTP_ADDR", "127.0.0.1:1")
	got := clitest.Run(t, clitest.Env{}, "doctor", "--dev")
	if got.Code != command.ExitFailed || !strings.Contains(got.Out, "fail  database") || !strings.Contains(got.Out, "carillon migrate") {
		t.Errorf("without a database, exit %d:\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	t.Setenv("DATA_DIR", dir)
	if got := clitest.Run(t, clitest.Env{}, "migrate"); got.Code != command.ExitOK {
		t.Fatal(got.ErrOut)
	}
	got = clitest.Run(t, clitest.Env{}, "doctor", "--dev", "-o", "json")
	for _, part := range []string{`"healthy": false`, `"says": "no leader for shard 0"`, `"check": "schema",`, `"says": "no due runs to claim"`} {
		if !strings.Contains(got.Out, part) {
			t.Errorf("no %s in\n%s%s", part, got.Out, got.ErrOut)
		}
	}
	t.Setenv("TICK_MS", "1")
	got = clitest.Run(t, clitest.Env{}, "doctor", "--dev")
	if got.Code != command.ExitFailed || !strings.Contains(got.Out, "fail  configuration  TICK_MS: 1 is not within 50 to 10000") {
		t.Errorf("with a bad setting, exit %d:\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	t.Setenv("HTTP_ADDR", "here")
	got = clitest.Run(t, clitest.Env{}, "doctor", "--dev")
	if !strings.Contains(got.Out, `TICK_MS: 1 is not within 50 to 10000; HTTP_ADDR: "here" is not host:port`) {
		t.Errorf("with two bad settings, exit %d:\n%s%s", got.Code, got.Out, got.ErrOut)
	}
}

func TestDoctorTellsAServerThatHangsFromNone(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for conn, err := lis.Accept(); err == nil; conn, err = lis.Accept() {
			_ = conn.Close() // without a word
		}
	})
	t.Cleanup(func() {
		_ = lis.Close()
		served.Wait()
	})
	t.Setenv("DATA_DIR", t.TempDir())
	for _, tt := range []struct{ name, address, want string }{
		{"nobody listens", "127.0.0.1:1", "warn  server         no server answers at HTTP_ADDR 127.0.0.1:1"},
		{"somebody does not answer", lis.Addr().String(), "fail  server         " + lis.Addr().String() + " accepts connections but does not answer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("HTTP_ADDR", tt.address)
			if got := clitest.Run(t, clitest.Env{}, "doctor", "--dev"); !strings.Contains(got.Out, tt.want) {
				t.Errorf("no %q in\n%s", tt.want, got.Out)
			}
		})
	}
}
