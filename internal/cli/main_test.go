package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/carillon/carillon/internal/test/services/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func TestOnlyATerminalIsATerminal(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	defer writer.Close()
	for name, f := range map[string]*os.File{"a file": file, "the null device": null, "a pipe": writer} {
		if isTerminal(f) {
			t.Errorf("%s is taken for a terminal", name)
		}
	}
	if device, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0); err == nil { // where there is one
		defer device.Close()
		if !isTerminal(device) {
			t.Error("a terminal is not taken for one")
		}
	}
}
