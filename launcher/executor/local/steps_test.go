package local_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/executor/local"
)

func TestStepsRunInTheOrderOfTheirNeeds(t *testing.T) {
	s := stage(t, local.Config{})
	call := callOf(0, `{"steps":[
		{"id":"c","needs":["a","b"],"shell":"echo c >> order"},
		{"id":"a","shell":"echo a >> order"},
		{"id":"b","needs":["a"],"shell":"echo b >> order"}]}`)
	if r := s.play(t, call); r.status != schedule.StatusSuccess {
		t.Fatalf("reported %+v, want SUCCESS", r)
	}
	if got := read(t, s.work("order")); got != "a\nb\nc\n" {
		t.Errorf("order: %q, want a, b, c", got)
	}
}

func TestIndependentStepsRunSideBySide(t *testing.T) {
	// Each side blocks on a fifo until the other has come: in sequence, neither
	// would ever end.
	s := stage(t, local.Config{})
	call := callOf(0, `{"steps":[
		{"id":"fifo","shell":"mkfifo meet"},
		{"id":"a","needs":["fifo"],"shell":"echo hello > meet"},
		{"id":"b","needs":["fifo"],"shell":"cat meet"}]}`)
	if r := s.play(t, call); r.status != schedule.StatusSuccess {
		t.Fatalf("reported %+v, want SUCCESS", r)
	}
	if got := read(t, filepath.Join(s.runDir(call.Key), "logs", "b.log")); !strings.Contains(got, "hello\n") {
		t.Errorf("log of b: %q, want its output in it", got)
	}
}

func TestAFailingStepEndsTheRun(t *testing.T) {
	tests := []struct {
		name string
		dag  string
		want string // the message
	}{
		{
			name: "an exit code, with the end of stderr", dag: shell("for i in 1 2 3 4 5; do echo line $i >&2; done; exit 3"),
			want: `step "only" ended with exit code 3: line 3 | line 4 | line 5`,
		},
		{name: "silence", dag: shell("exit 1"), want: `step "only" ended with exit code 1`},
		{name: "an unset variable", dag: shell("echo $NOPE"), want: `NOPE`},
		{name: "a signal", dag: shell("kill -KILL $$"), want: `step "only" was ended (signal: killed)`},
		{name: "no such program", dag: `{"steps":[{"id":"only","run":["no-such-program"]}]}`, want: `step "only" could not be started: exec: "no-such-program": executable file not found`},
		{name: "no such folder", dag: `{"steps":[{"id":"only","dir":"nowhere","shell":"true"}]}`, want: `step "only" could not be started: `},
		{name: "its own timeout", dag: `{"steps":[{"id":"only","timeout_ms":2000,"shell":"echo waiting >&2; sleep 60"}]}`, want: `step "only" did not end within 2s: waiting`},
		{name: "an address that nobody serves", dag: `{"steps":[{"id":"only","http":{"url":"http://127.0.0.1:1/"}}]}`, want: `step "only" no answer: `},
		{name: "an address with a variable that is not set", dag: `{"steps":[{"id":"only","http":{"url":"http://e/${NOPE}"}}]}`, want: `variable NOPE is not set`},
		{name: "an address that is none", dag: `{"env":{"U":"e"},"steps":[{"id":"only","http":{"url":"${U}/x"}}]}`, want: `url "e/x" is not an absolute`},
	}
	s := stage(t, local.Config{})
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := s.play(t, callOf(i, tt.dag))
			if r.status != schedule.StatusFailed || r.code != "step_failed" || !strings.Contains(r.message, tt.want) {
				t.Errorf("reported %+v\nwant FAILED with %q", r, tt.want)
			}
		})
	}
}

func TestNothingBeginsAfterAFailureAndWhatRunsMayEnd(t *testing.T) {
	s := stage(t, local.Config{StepConcurrency: 2})
	call := callOf(0, `{"steps":[
		{"id":"slow","shell":"mkfifo gate; echo up > ready; cat gate; echo done > slow"},
		{"id":"bad","shell":"while ! [ -s ready ]; do sleep 0.01; done; exit 2"},
		{"id":"after","needs":["bad"],"shell":"touch after"},
		{"id":"free","shell":"touch free"}]}`)
	s.run(t, call)
	s.await(t, "end of bad", func() bool {
		log, _ := os.ReadFile(filepath.Join(s.runDir(call.Key), "logs", "bad.log"))
		return strings.Contains(string(log), "ended with exit code 2")
	})
	gate, err := os.OpenFile(s.work("gate"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(gate, "go\n")
	_ = gate.Close()
	r := s.end(t, call.Key)
	if r.status != schedule.StatusFailed || !strings.Contains(r.message, `step "bad" ended with exit code 2`) {
		t.Errorf("reported %+v, want FAILED by bad", r)
	}
	got := map[string]string{}
	for _, step := range s.result(t, call.Key).Steps {
		got[step.ID] = step.Status
	}
	want := map[string]string{"slow": "SUCCESS", "bad": "FAILED", "after": "SKIPPED", "free": "SKIPPED"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestRetriesAndForgivenFailures(t *testing.T) {
	s := stage(t, local.Config{})
	call := callOf(0, `{"steps":[
		{"id":"third","retries":2,"retry_delay_ms":1,"shell":"echo x >> tries; [ $(wc -l < tries) -ge 3 ]"},
		{"id":"never","retries":1,"retry_delay_ms":1,"continue_on_error":true,"shell":"exit 9"},
		{"id":"after","needs":["third","never"],"shell":"echo $CARILLON_NEED_THIRD $CARILLON_NEED_NEVER $CARILLON_NEED_NEVER_CODE > seen"}]}`)
	if r := s.play(t, call); r.status != schedule.StatusSuccess {
		t.Fatalf("reported %+v, want SUCCESS", r)
	}
	if got := read(t, s.work("seen")); got != "SUCCESS FAILED 9\n" {
		t.Errorf("the step behind saw %q", got)
	}
	var attempts []int
	for _, step := range s.result(t, call.Key).Steps {
		attempts = append(attempts, step.Attempts)
	}
	if diff := cmp.Diff([]int{3, 2, 1}, attempts); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
}

func TestWhatAStepSees(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://secret")
	t.Setenv("ALSO_PASSED", "yes")
	s := stage(t, local.Config{PassEnv: []string{"ALSO_PASSED"}, BaseURL: "http://127.0.0.1:8080/", Environment: "prod"})
	call := callOf(0, `{"env":{"A":"dag","INPUT_KEEP":"default","INPUT_OTHER":"default"},"steps":[{"id":"only","env":{"A":"step"},"shell":"env; pwd; cat \"$CARILLON_INPUT_FILE\"; test -d \"$CARILLON_RUN_DIR\""}]}`)
	call.Input = json.RawMessage(`{"keep":9007199254740993,"path":"a b\nc","deep":{"x":1},"none":null,"no-name":1,"nul":"\u0000","yes":true}`)
	if r := s.play(t, call); r.status != schedule.StatusSuccess {
		t.Fatalf("reported %+v, want SUCCESS", r)
	}
	log := read(t, filepath.Join(s.runDir(call.Key), "logs", "only.log"))
	for _, want := range []string{
		"\nA=step\n", "\nALSO_PASSED=yes\n", "\nINPUT_KEEP=9007199254740993\n", "\nINPUT_OTHER=default\n", "\nINPUT_PATH=a b\nc\n", "\nINPUT_YES=true\n",
		"\nCARILLON_INPUT=" + string(call.Input) + "\n", "\nCARILLON_RUN_AT=2026-03-08T12:00:00Z\n", "\nCARILLON_SCHEDULE_ID=s\n",
		"\nCARILLON_WORKFLOW_ID=w\n", "\nCARILLON_VERSION=2\n", "\nCARILLON_KEY=" + call.Key.String() + "\n", "\nCARILLON_ATTEMPT=1\n",
		"\nCARILLON_TRIGGER=schedule\n", "\nCARILLON_STEP=only\n", "\nCARILLON_ENVIRONMENT=prod\n", "\nCARILLON_URL=http://127.0.0.1:8080\n",
		"\nCARILLON_WORK_DIR=" + filepath.Join(s.dir, "work", "owners", "u", "w") + "\n", "\n" + filepath.Join(s.dir, "work", "owners", "u", "w") + "\n" + string(call.Input),
	} {
		if !strings.Contains(log, want) {
			t.Errorf("not in the log: %q", want)
		}
	}
	for _, secret := range []string{"DATABASE_URL", "INPUT_DEEP", "INPUT_NONE=", "INPUT_NUL=", "INPUT_NO-NAME"} {
		if strings.Contains(log, secret+"=") || strings.Contains(log, "\n"+secret) {
			t.Errorf("in the log: %s", secret)
		}
	}
	if t.Failed() {
		t.Logf("log:\n%s", log)
	}
}

func TestAStepsLogIsBounded(t *testing.T) {
	s := stage(t, local.Config{})
	call := callOf(0, shell("head -c 3000000 /dev/zero | tr '\\0' x"))
	if r := s.play(t, call); r.status != schedule.StatusSuccess {
		t.Fatalf("reported %+v, want SUCCESS", r)
	}
	log := read(t, filepath.Join(s.runDir(call.Key), "logs", "only.log"))
	if len(log) > 1<<20+200 || !strings.HasSuffix(log, "[cut: a step's log holds 1048576 bytes]\n") {
		t.Errorf("log of %d bytes ends with %q", len(log), log[len(log)-60:])
	}
}

func TestWhatAStepStartsEndsWithIt(t *testing.T) {
	s := stage(t, local.Config{})
	r := s.play(t, callOf(0, shell("sleep 600 & echo $! > pid")))
	if r.status != schedule.StatusSuccess {
		t.Fatalf("reported %+v, want SUCCESS", r)
	}
	awaitGone(t, strings.TrimSpace(read(t, s.work("pid"))))
}

func TestCallsSendAndJudge(t *testing.T) {
	var tries atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/flaky":
			if tries.Add(1) < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		case "/missing":
			http.Error(w, "no such thing", http.StatusNotFound)
		case "/away":
			http.Redirect(w, r, "/echo", http.StatusFound)
		case "/large":
			_, _ = io.WriteString(w, strings.Repeat("x", 16<<20+1))
		default:
			_, _ = fmt.Fprintf(w, "%s %s %s %s %s", r.Method, r.URL, r.Header.Get("X-Run"), r.Header.Get("Content-Type"), body)
		}
	}))
	defer server.Close()
	tests := []struct {
		name  string
		step  string // members of the step, with SERVER for its address
		saved string
		fails string // part of the message
	}{
		{
			name: "GET by default, variables replaced", step: `"http":{"url":"SERVER/${CARILLON_WORKFLOW_ID}","headers":{"X-Run":"${CARILLON_SCHEDULE_ID}"},"save_as":"out"}`,
			saved: "GET /w s  ",
		},
		{
			name: "POST with JSON, which is sent as written", step: `"http":{"url":"SERVER/echo","body":{"b":1.0,"a":"${CARILLON_KEY}"},"save_as":"out"}`,
			saved: `POST /echo  application/json {"b":1.0,"a":"${CARILLON_KEY}"}`,
		},
		{
			name: "another method with text", step: `"http":{"method":"PUT","url":"SERVER/echo","body":"for ${CARILLON_WORKFLOW_ID}","save_as":"out"}`,
			saved: "PUT /echo   for w",
		},
		{name: "retried until it answers well", step: `"retries":2,"retry_delay_ms":1,"http":{"url":"SERVER/flaky"}`},
		{name: "a status that is expected", step: `"http":{"url":"SERVER/missing","expect_status":[404],"save_as":"out"}`, saved: "no such thing\n"},
		{name: "a redirect that is expected", step: `"http":{"url":"SERVER/away","expect_status":[302]}`},
		{name: "a status that is not expected", step: `"http":{"url":"SERVER/missing"}`, fails: `step "only" was answered 404 Not Found: no such thing`},
		{name: "redirects are not followed", step: `"http":{"url":"SERVER/away"}`, fails: "was answered 302 Found"},
		{name: "200 where 404 is expected", step: `"http":{"url":"SERVER/echo","expect_status":[404]}`, fails: "was answered 200 OK"},
		{name: "too much to save", step: `"http":{"url":"SERVER/large","save_as":"out"}`, fails: "more than 16777216 bytes"},
	}
	s := stage(t, local.Config{})
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			call := callOf(i, `{"steps":[{"id":"only",`+strings.ReplaceAll(tt.step, "SERVER", server.URL)+`}]}`)
			r := s.play(t, call)
			if tt.fails != "" {
				if r.status != schedule.StatusFailed || !strings.Contains(r.message, tt.fails) {
					t.Errorf("reported %+v, want FAILED with %q", r, tt.fails)
				}
				return
			}
			if r.status != schedule.StatusSuccess {
				t.Fatalf("reported %+v, want SUCCESS", r)
			}
			if tt.saved != "" {
				if got := read(t, filepath.Join(s.runDir(call.Key), "files", "out")); got != tt.saved {
					t.Errorf("saved %q, want %q", got, tt.saved)
				}
			}
		})
	}
}

func TestACallThatIsNotAllowedOutsideFailsInWords(t *testing.T) {
	var hits atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer server.Close()
	s := stage(t, local.Config{Egress: egress(t, "192.0.2.1")})
	for i, address := range []string{server.URL, strings.Replace(server.URL, "127.0.0.1", "localhost", 1), "http://169.254.169.254/latest/meta-data/"} {
		r := s.play(t, callOf(i, `{"steps":[{"id":"only","http":{"url":"`+address+`"}}]}`))
		if r.status != schedule.StatusFailed || !strings.Contains(r.message, "was not sent: the address is not allowed") || !strings.Contains(r.message, "ALLOW_EGRESS") {
			t.Errorf("%s: reported %+v", address, r)
		}
	}
	if hits.Load() != 0 {
		t.Errorf("%d calls arrived", hits.Load())
	}
}
