package local_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/executor/local"
)

func TestARunReadsItsStateAndCommits(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		state        json.RawMessage
		want         *schedule.Commit
		refused      string // what the error says; "": the run succeeds
	}{
		{name: "no commit", script: "test \"$(cat $CARILLON_STATE)\" = null"},
		{
			name: "the state that it got, in a new one", state: json.RawMessage(`{"n":7}`),
			script: `echo "{\"state\": [$(cat $CARILLON_STATE)]}" > $CARILLON_RUN_DIR/commit.json`, want: &schedule.Commit{State: []byte(`[{"n":7}]`), Events: []schedule.CommitEvent{}},
		},
		{name: "a commit that breaks a rule", script: `echo '{"publish": [{"topic": "t"}]}' > $CARILLON_RUN_DIR/commit.json`, refused: "publish[0].data: is required"},
		{name: "a file that is no JSON", script: `echo hello > $CARILLON_RUN_DIR/commit.json`, refused: "commit.json is not a JSON object"},
		{name: "a link to a file of the server", script: `ln -s /etc/passwd $CARILLON_RUN_DIR/commit.json`, refused: "commit.json is not a regular file"},
		{name: "a pipe", script: `mkfifo $CARILLON_RUN_DIR/commit.json`, refused: "commit.json is not a regular file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := stage(t, local.Config{})
			dag, err := json.Marshal(map[string]any{"steps": []map[string]any{{"id": "only", "shell": []string{tc.script}}}})
			if err != nil {
				t.Fatal(err)
			}
			call := callOf(0, string(dag))
			call.State.Value = tc.state
			last := s.play(t, call)
			o, err := s.GetByKey(t.Context(), schedule.RunRef{Key: call.Key})
			if err != nil {
				t.Fatal(err)
			}
			if tc.refused != "" {
				if last.status != schedule.StatusFailed || last.code != "commit_invalid" || !strings.Contains(last.message, tc.refused) || o.FailureClass != schedule.ClassLogic {
					t.Errorf("reported %+v, answered %+v, want the refusal %q", last, o, tc.refused)
				}
				return
			}
			if last.status != schedule.StatusSuccess {
				t.Fatalf("reported %+v, want SUCCESS", last)
			}
			if o.Commit != nil { // result.json has indented it
				var compact any
				if err := json.Unmarshal(o.Commit.State, &compact); err != nil {
					t.Fatal(err)
				}
				o.Commit.State, _ = json.Marshal(compact)
			}
			if diff := cmp.Diff(tc.want, o.Commit); diff != "" {
				t.Error(diff)
			}
		})
	}
}
