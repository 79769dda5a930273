package local_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/executor/local"
)

func TestParse(t *testing.T) {
	step := func(members string) string { return `{"steps":[{"id":"a",` + members + `}]}` }
	tests := []struct {
		name string
		dag  string
		want string // part of the error; empty: accepted
	}{
		{name: "a shell step", dag: step(`"shell":"true"`)},
		{name: "a script as a list of lines", dag: step(`"shell":["true","true"]`)},
		{name: "a script that is neither text nor lines", dag: step(`"shell":1`), want: "shell is neither a string nor a list of lines"},
		{name: "a script without lines", dag: step(`"shell":[]`), want: "has 0 of run, shell and http"},
		{name: "a program", dag: step(`"run":["true"]`)},
		{name: "a call with everything", dag: step(`"http":{"method":"PUT","url":"http://e/${X}","headers":{"A-B":"${Y}"},"body":{"a":1},"expect_status":[200,404],"save_as":"a-b.json"}`)},
		{name: "all that a step may say", dag: step(`"shell":"true","needs":[],"env":{"A":"b"},"dir":"sub","timeout_ms":1,"retries":1,"retry_delay_ms":1,"continue_on_error":true`)},
		{name: "what others keep in a DAG is ignored", dag: `{"workflow_id":"w","version":1,"triggers":[{}],"x-other":1,"steps":[{"id":"a","shell":"true"}]}`},
		{name: "needs may point forward", dag: `{"steps":[{"id":"b","needs":["a"],"shell":"true"},{"id":"a","shell":"true"}]}`},

		{name: "no DAG", dag: ``, want: "is not a DAG"},
		{name: "not an object", dag: `[]`, want: "is not a DAG"},
		{name: "no steps", dag: `{}`, want: "steps: has 0 entries; give 1 to 200"},
		{name: "too many steps", dag: `{"steps":[` + strings.Repeat(`{},`, 200) + `{}]}`, want: "has 201 entries"},
		{name: "a misspelt member", dag: step(`"shell":"true","retires":3`), want: `steps[0]: is not a step: json: unknown field "retires"`},
		{name: "a step that is no object", dag: `{"steps":["a"]}`, want: "steps[0]: is not a step"},
		{name: "no id", dag: `{"steps":[{"shell":"true"}]}`, want: `steps[0].id: "" is not an id`},
		{name: "an id that is a path", dag: `{"steps":[{"id":"../x","shell":"true"}]}`, want: "is not an id"},
		{name: "an id twice", dag: `{"steps":[{"id":"a","shell":"true"},{"id":"a","shell":"true"}]}`, want: `steps[1].id: "a" is also the id of steps[0]`},
		{name: "nothing to do", dag: step(`"env":{}`), want: "has 0 of run, shell and http"},
		{name: "two things to do", dag: step(`"shell":"true","run":["true"]`), want: "has 2 of run, shell and http"},
		{name: "no program", dag: step(`"run":[]`), want: "names no program"},
		{name: "an unknown need", dag: step(`"shell":"true","needs":["b"]`), want: `"b" is not the id of a step`},
		{name: "a step that needs itself", dag: step(`"shell":"true","needs":["a"]`), want: "in a cycle"},
		{
			name: "a circle", want: `"b, c" depend on each other in a cycle`,
			dag: `{"steps":[{"id":"a","shell":"true"},{"id":"b","needs":["a","c"],"shell":"true"},{"id":"c","needs":["b"],"shell":"true"}]}`,
		},
		{name: "a negative timeout", dag: step(`"shell":"true","timeout_ms":-1`), want: "steps[0].timeout_ms: -1 (-1ms) is out of bounds"},
		{name: "too many retries", dag: step(`"shell":"true","retries":101`), want: "steps[0].retries: 101 is out of bounds"},
		{name: "too long between retries", dag: step(`"shell":"true","retry_delay_ms":3600001`), want: "retry_delay_ms"},
		{name: "a variable that is none", dag: step(`"shell":"true","env":{"A=B":"c"}`), want: "is not a variable's name"},
		{name: "a variable of ours", dag: `{"env":{"CARILLON_KEY":"x"},"steps":[{"id":"a","shell":"true"}]}`, want: `env: "CARILLON_KEY" is set by Carillon`},
		{name: "a NUL in a variable", dag: step(`"shell":"true","env":{"A":"b\u0000"}`), want: "holds a NUL"},
		{name: "a NUL in a script", dag: step(`"shell":"true\u0000"`), want: "holds a NUL"},
		{name: "a call without address", dag: step(`"http":{}`), want: "steps[0].http.url: is empty"},
		{name: "a method in lower case", dag: step(`"http":{"url":"http://e","method":"get"}`), want: "is not a method"},
		{name: "a status that is none", dag: step(`"http":{"url":"http://e","expect_status":[99]}`), want: "is not an HTTP status"},
		{name: "a file elsewhere", dag: step(`"http":{"url":"http://e","save_as":"../x"}`), want: "is not a file name"},
		{name: "a header of two lines", dag: step(`"http":{"url":"http://e","headers":{"A":"b\nC: d"}}`), want: "is not a header"},
		{name: "a misspelt member of a call", dag: step(`"http":{"uri":"http://e"}`), want: `unknown field "uri"`},
		{name: "more than a megabyte", dag: `{"steps":[{"id":"a","shell":"` + strings.Repeat(" ", schedule.MaxDAGBytes) + `"}]}`, want: "is more than 1048576"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dag, err := local.Parse([]byte(tt.dag))
			if tt.want == "" {
				if err != nil || len(dag.Steps) == 0 {
					t.Fatalf("Parse() = %+v, %v, want it accepted", dag, err)
				}
				return
			}
			var invalid *schedule.InvalidError
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Parse() = %v, want an InvalidError with %q", err, tt.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"steps":[{"id":"a","shell":"true"}]}`,
		`{"steps":[{"id":"a","needs":["b"],"run":["x"]},{"id":"b","http":{"url":"http://e"}}]}`,
		`{"env":{"A":"b"},"steps":[{}]}`, `{"steps":[null]}`, `null`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		dag, err := local.Parse(raw)
		if (err == nil) != (dag != nil) {
			t.Fatalf("Parse(%q) = %v, %v", raw, dag, err)
		}
		if dag == nil {
			return
		}
		// Whatever was accepted can be put into an order.
		ended := map[string]bool{}
		for range dag.Steps {
			for i := range dag.Steps {
				ready := true
				for _, need := range dag.Steps[i].Needs {
					ready = ready && ended[need]
				}
				if ready {
					ended[dag.Steps[i].ID] = true
				}
			}
		}
		if len(ended) != len(dag.Steps) {
			t.Fatalf("Parse(%q) accepts a circle or an id twice", raw)
		}
	})
}

func TestADataFolderHasOneOwner(t *testing.T) {
	s := rehearse(t, local.Config{})
	_, err := local.New(local.Config{Dir: s.dir})
	if err == nil || !strings.Contains(err.Error(), "DATA_DIR") {
		t.Errorf("a second New on the same folder: %v, want an error that names DATA_DIR", err)
	}
	s.stop()
	again, err := local.New(local.Config{Dir: s.dir})
	if err != nil {
		t.Fatalf("New after Close: %v", err)
	}
	_ = again.Close()
	if _, err := local.New(local.Config{}); err == nil {
		t.Error("New without a folder is accepted")
	}
	if err := os.WriteFile(s.dir+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := local.New(local.Config{Dir: s.dir + "/file"}); err == nil {
		t.Error("New with a file for a folder is accepted")
	}
}
