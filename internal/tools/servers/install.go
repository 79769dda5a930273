package servers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// canInstall tells whether apt-get is here and may be used without asking.
func canInstall() bool {
	_, err := exec.LookPath("apt-get")
	return err == nil && os.Getuid() == 0
}

// install installs the Debian packages of the services, without starting the
// system services that come with them.
func install(services []service) (err error) {
	var packages []string
	for _, s := range services {
		packages = append(packages, s.debian)
	}
	fmt.Fprintln(os.Stderr, "servers: installing", strings.Join(packages, " "), "(once per machine)")

	// Two installs at once would take each other's policy for the machine's.
	unlock, err := lockFile(filepath.Join(os.TempDir(), "carillon-test-install.lock"))
	if err != nil {
		return fmt.Errorf("install %s: %w", strings.Join(packages, " "), err)
	}
	defer unlock()
	restore, err := keepServicesDown("/")
	defer func() { err = errors.Join(err, restore()) }()
	if err != nil {
		return fmt.Errorf("install %s: %w", strings.Join(packages, " "), err)
	}

	if err := aptGet("update"); err != nil {
		return err
	}
	return aptGet(append([]string{"install", "-y", "--no-install-recommends"}, packages...)...)
}

func aptGet(args ...string) error {
	args = append([]string{"-q", "-o", "DPkg::Lock::Timeout=300"}, args...)
	command := exec.Command("apt-get", args...)
	command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, lastLines(string(output), 20))
	}
	return nil
}

// keepServicesDown tells Debian's package scripts below root to start no
// service and to make no Postgres cluster. restore undoes exactly that, and
// can be called whether or not keepServicesDown failed.
func keepServicesDown(root string) (restore func() error, err error) {
	// invoke-rc.d asks this program before it starts anything; 101 is "no".
	policy := filepath.Join(root, "usr/sbin/policy-rc.d")
	// postgresql-common reads this folder before it makes the first cluster.
	cluster := filepath.Join(root, "etc/postgresql-common/createcluster.d/carillon-test.conf")
	saved := policy + ".carillon-saved"

	restore = func() error {
		err := errors.Join(removeIfThere(cluster), removeIfThere(policy))
		if renamed := os.Rename(saved, policy); !errors.Is(renamed, fs.ErrNotExist) {
			err = errors.Join(err, renamed)
		}
		return err
	}
	// A saved policy that is already there is the machine's own, from an
	// install that was killed: it must not be overwritten with ours.
	if _, err := os.Lstat(saved); errors.Is(err, fs.ErrNotExist) {
		if err := os.Rename(policy, saved); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return func() error { return nil }, err
		}
	}
	return restore, errors.Join(
		writeFile(policy, "#!/bin/sh\nexit 101\n", 0o755),
		writeFile(cluster, "create_main_cluster = false\n", 0o644),
	)
}

func writeFile(path, text string, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), mode)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
