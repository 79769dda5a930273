package e2e_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
)

// workshop holds what one run of these tests makes: the binary.
var workshop string

func TestMain(m *testing.M) {
	flag.Parse()
	// These tests wait for processes more than they compute.
	err := flag.Set("test.parallel", "4")
	if err != nil {
		panic(err)
	}
	if workshop, err = os.MkdirTemp("", "carillon-e2e-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go startChildren()
	code := m.Run()
	_ = os.RemoveAll(workshop)
	os.Exit(code)
}

// root is the repository.
func root() string { return filepath.Join("..", "..", "..") }

// build builds as `make build` does, so that what is compiled already is not again.
var build = sync.OnceValues(func() (string, error) {
	path := filepath.Join(workshop, "carillon")
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, "./cmd/carillon")
	cmd.Dir = root()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/carillon: %w\n%s", err, out)
	}
	return path, nil
})

// binary is the path of carillon, built once per test run.
func binary(t testing.TB) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// starts are the children that are to be started. The kernel ends a child
// when the thread that started it ends (see dieWithParent), so one thread that
// never ends starts them all.
var starts = make(chan func())

func startChildren() {
	runtime.LockOSThread()
	for start := range starts {
		start()
	}
}

func startChild(cmd *exec.Cmd) error {
	started := make(chan error)
	starts <- func() { started <- cmd.Start() }
	return <-started
}

// seed is where a test's random choices come from; E2E_SEED repeats them.
func seed(t testing.TB) uint64 {
	t.Helper()
	chosen := rand.Uint64N(1_000_000)
	if text := os.Getenv("E2E_SEED"); text != "" {
		var err error
		if chosen, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("E2E_SEED: %v", err)
		}
	}
	t.Logf("seed: E2E_SEED=%d", chosen)
	return chosen
}
