package app_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/carillon/carillon/internal/app"
)

func TestTheMemoryLimitOfAControlGroupIsFound(t *testing.T) {
	const unlimitedV1 = "9223372036854771712\n"
	for _, c := range []struct {
		name  string
		self  string            // /proc/self/cgroup
		files map[string]string // below /sys/fs/cgroup
		want  int64             // 0: no limit
	}{
		{name: "version 2, a container whose group is the root", self: "0::/\n", files: map[string]string{"memory.max": "536870912\n"}, want: 512 << 20},
		{
			name: "version 2, a systemd unit", self: "0::/system.slice/carillon.service\n",
			files: map[string]string{"system.slice/carillon.service/memory.max": "1073741824\n", "system.slice/memory.max": "max\n"}, want: 1 << 30,
		},
		{
			name: "version 2, a slice above the unit is smaller", self: "0::/system.slice/carillon.service\n",
			files: map[string]string{"system.slice/carillon.service/memory.max": "max\n", "system.slice/memory.max": "268435456\n"}, want: 256 << 20,
		},
		{name: "version 2, the host's path inside a container", self: "0::/kubepods.slice/pod1/abc\n", files: map[string]string{"memory.max": "536870912\n"}, want: 512 << 20},
		{name: "version 2, no limit", self: "0::/a\n", files: map[string]string{"a/memory.max": "max\n", "memory.max": "max\n"}},
		{name: "version 1", self: "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n", files: map[string]string{"memory/docker/x/memory.limit_in_bytes": "536870912\n", "memory/memory.limit_in_bytes": unlimitedV1}, want: 512 << 20},
		{name: "version 1, the host's path inside a container", self: "4:memory:/docker/x\n", files: map[string]string{"memory/memory.limit_in_bytes": "536870912\n"}, want: 512 << 20},
		{name: "version 1, no limit", self: "4:memory:/\n", files: map[string]string{"memory/memory.limit_in_bytes": unlimitedV1}},
		{name: "version 1 and 2 side by side", self: "4:memory:/a\n0::/a\n", files: map[string]string{"memory/a/memory.limit_in_bytes": "536870912\n"}, want: 512 << 20},
		{name: "a path that leads out of the mount", self: "0::/../../..\n", files: map[string]string{"memory.max": "536870912\n"}, want: 512 << 20},
		{name: "no file of that name", self: "0::/\n"},
		{name: "no line that can be read", self: "nonsense\n", files: map[string]string{"memory.max": "536870912\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			self := filepath.Join(root, "self")
			write := func(path, text string) {
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write(self, c.self)
			for name, text := range c.files {
				write(filepath.Join(root, "fs", name), text)
			}
			got, found := app.CgroupMemoryLimit(self, filepath.Join(root, "fs"))
			if got != c.want || found != (c.want != 0) {
				t.Errorf("found %d (%v), want %d", got, found, c.want)
			}
		})
	}
	if _, found := app.CgroupMemoryLimit("/does/not/exist", "/does/not/exist"); found {
		t.Error("a limit is found on a machine without control groups")
	}
}
