package local_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/executor/local"
)

// nobody is a user without rights, by number: no name service is asked.
const nobody = 65534

// steals is what a step tries on its server. Each line of its log is the name
// of a try, then "got" or "refused". 000 is a byte that each memory begins with
// somewhere: opening it is enough.
const steals = `
try() { name=$1; shift; if "$@" > "stolen-$name" 2> "why-$name"; then echo "$name got"; else echo "$name refused"; fi; }
try environ cat /proc/$PPID/environ
try memory sh -c ': < /proc/'$PPID'/mem'
try files ls /proc/$PPID/fd/
try file sh -c 'for f in 0 1 2 3 4 5 6 7 8 9; do cat < /proc/'$PPID'/fd/$f && exit; done; exit 1' < /dev/null
try maps cat /proc/$PPID/maps
try folder ls /proc/$PPID/cwd/
try trace sh -c 'cat /proc/'$PPID'/stack'
`

// openTo makes a folder that a user without rights can pass through. Those of
// t.TempDir are closed.
func openTo(t *testing.T, uid int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "carillon-theft-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if os.Geteuid() != 0 {
		return dir
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "own")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(own, uid, uid); err != nil {
		t.Fatal(err)
	}
	return own
}

// asNobody runs one test of this binary again, as a user without rights where
// this one is root.
func asNobody(t *testing.T, test string, env ...string) {
	t.Helper()
	dir := openTo(t, nobody)
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.v")
	cmd.Env, cmd.Dir = append(os.Environ(), append(env, "THEFT_DIR="+dir, "TMPDIR="+dir)...), dir
	if os.Geteuid() == 0 {
		binary := filepath.Join(filepath.Dir(dir), "test")
		copyFile(t, os.Args[0], binary)
		cmd.Path = binary
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+test) {
		t.Errorf("%v\n%s", err, out)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAStepOfTheServersOwnUserReadsNothingOfTheServer(t *testing.T) {
	for _, shielded := range []string{"yes", "no"} { // no: the tries do work on a process that is open to them
		t.Run("shielded "+shielded, func(t *testing.T) {
			asNobody(t, "TestInsideTheServer", "SHIELDED="+shielded, "CANARY=of-the-server")
		})
	}
}

// TestInsideTheServer is the process that the test above starts.
func TestInsideTheServer(t *testing.T) {
	dir := os.Getenv("THEFT_DIR")
	if dir == "" {
		t.Skip("is run by TestAStepOfTheServersOwnUserReadsNothingOfTheServer, in a process of its own")
	}
	want := "environ got\nmemory got\nfiles got\nfile got\nmaps got\nfolder got\n"
	if os.Getenv("SHIELDED") == "yes" {
		if err := local.Shield(); err != nil {
			t.Fatal(err)
		}
		want = strings.ReplaceAll(want, "got", "refused")
	}
	s := stage(t, local.Config{Dir: filepath.Join(dir, "data")})
	call := callOf(0, shell(steals+"\ntrue"))
	if r := s.play(t, call); r.status != schedule.StatusSuccess {
		t.Fatalf("reported %+v", r)
	}
	log := read(t, filepath.Join(s.runDir(call.Key), "logs", "only.log"))
	if !strings.Contains(log, want) {
		t.Errorf("%s\nwant %s", log, want)
	}
	if stolen := read(t, s.work("stolen-environ")); strings.Contains(stolen, "CANARY=of-the-server") != (os.Getenv("SHIELDED") == "no") {
		t.Errorf("the step read %q of the server's environment", stolen)
	}
	if _, err := os.ReadDir("/proc/self/fd"); err != nil { // the metrics of a process count them
		t.Errorf("the server can no longer list its own files: %v", err)
	}
	for _, own := range []string{"stat", "status", "limits"} {
		read(t, "/proc/self/"+own)
	}
	_, err := local.New(local.Config{Dir: filepath.Join(dir, "other"), User: "1:1"})
	if err == nil || !strings.Contains(err.Error(), "lacks CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_KILL, CAP_SETGID, CAP_SETUID") {
		t.Errorf("another user's account without the right to it: %v", err)
	}
}

func TestStepsOfAnotherUserReachOnlyTheirFolders(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run commands as another user")
	}
	t.Setenv("CANARY", "of-the-server")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "answer\n") }))
	defer server.Close()
	dir := filepath.Join(openTo(t, 0), "data")
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(filepath.Dir(dir), "outside")
	if err := os.WriteFile(outside, []byte("untouched\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := stage(t, local.Config{Dir: dir, User: "65534:65534"})
	call := callOf(0, `{"steps":[
		{"id":"who","shell":"id -u; id -g; id -G; echo $HOME $USER; cat \"$CARILLON_INPUT_FILE\" > input; touch here; cd \"$CARILLON_RUN_DIR\"; touch there; ln -s `+outside+` link.txt; mkfifo pipe.txt"},
		{"id":"steal","needs":["who"],"shell":`+quoteJSON(steals+`
try state cat "$CARILLON_RUN_DIR/../started"
try log cat "$CARILLON_RUN_DIR/../logs/who.log"
try runs ls `+dir+`/runs
try open ls `+dir+`/runs/open
try data ls `+dir+`
true`)+`},
		{"id":"link","needs":["steal"],"http":{"url":"`+server.URL+`","save_as":"link.txt"}},
		{"id":"pipe","needs":["link"],"http":{"url":"`+server.URL+`","save_as":"pipe.txt"}},
		{"id":"saved","needs":["pipe"],"shell":"cat \"$CARILLON_RUN_DIR/link.txt\" \"$CARILLON_RUN_DIR/pipe.txt\""}]}`)
	if r := s.play(t, call); r.status != schedule.StatusSuccess {
		t.Fatalf("reported %+v", r)
	}
	log := func(step string) string { return read(t, filepath.Join(s.runDir(call.Key), "logs", step+".log")) }
	if got := log("who"); !strings.Contains(got, "65534\n65534\n65534\n/ 65534:65534\n") {
		t.Errorf("the step is %s", got)
	}
	if got, want := log("steal"), "environ got\nmemory got\nfiles got\nfile got\nmaps got\nfolder got\ntrace got\nstate got\nlog got\nruns got\nopen got\ndata got\n"; !strings.Contains(got, strings.ReplaceAll(want, "got", "refused")) {
		t.Errorf("the step reached\n%s", got)
	}
	if got := log("saved"); strings.Count(got, "answer\n") != 2 {
		t.Errorf("what HTTP steps saved is %s", got)
	}
	if got := read(t, outside); got != "untouched\n" {
		t.Errorf("a link led out of the folder: %q", got)
	}
}

func TestAnAccountThatIsNoneStopsTheStart(t *testing.T) {
	for _, c := range []struct{ name, user, says string }{
		{"nobody of this machine", "no-such-user", "is not a user of this machine"},
		{"no number", "a:b", "is neither a user's name nor UID:GID"},
		{"below zero", "-1:5", "is neither a user's name nor UID:GID"},
		{"root", "root", "is root, or in its group"},
		{"root's group", "5:0", "is root, or in its group"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := local.New(local.Config{Dir: t.TempDir(), User: c.user}); err == nil || !strings.Contains(err.Error(), "LOCAL_EXECUTOR_USER") || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v; want it to say %q", err, c.says)
			}
		})
	}
	t.Run("one that cannot enter DATA_DIR", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("only root can run commands as another user")
		}
		closed := filepath.Join(openTo(t, 0), "data") // below a folder of mode 0700
		_, err := local.New(local.Config{Dir: closed, User: "65534:65534"})
		if err == nil || !strings.Contains(err.Error(), "cannot run a command in "+closed) {
			t.Errorf("%v", err)
		}
	})
}
