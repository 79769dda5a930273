package local

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/output"
)

// inherited are the variables of this process that steps see. Workflows must not see
// others, such as DATABASE_URL and EXECUTOR_TOKEN.
var inherited = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"}

// baseEnv is the environment of every step of a run. A later setting of a name
// replaces an earlier one.
func (e *Executor) baseEnv(s *scene) []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	for _, setting := range os.Environ() {
		name, _, _ := strings.Cut(setting, "=")
		if slices.Contains(inherited, name) || strings.HasPrefix(name, "LC_") || slices.Contains(e.cfg.PassEnv, name) {
			env = append(env, setting)
		}
	}
	if e.account != nil { // not the home and folders of the user that the server runs as
		env = append(env, e.account.environ()...)
	}
	return appendSorted(env, s.dag.Env)
}

// stepEnv is the whole environment of a step: that of the run, its own variables,
// the members of the input, and Carillon's variables about the run and the needs.
func (s *scene) stepEnv(e *Executor, step *Step, ended map[string]*StepResult) []string {
	env := appendSorted(slices.Clone(s.base), step.Env)
	env = appendSorted(env, inputMembers(s.call.Input))
	env = append(env,
		"CARILLON_INPUT="+string(s.call.Input),
		"CARILLON_INPUT_FILE="+filepath.Join(s.runDir, "input.json"),
		"CARILLON_RUN_AT="+s.call.ScheduledFor.Format(time.RFC3339Nano),
		"CARILLON_SCHEDULE_ID="+s.call.ScheduleID,
		"CARILLON_WORKFLOW_ID="+s.call.WorkflowID,
		"CARILLON_VERSION="+strconv.Itoa(int(s.call.Version)),
		"CARILLON_USER_ID="+s.call.UserID,
		"CARILLON_TRIGGER="+s.call.Trigger,
		"CARILLON_ATTEMPT="+strconv.Itoa(int(s.call.Attempt)),
		"CARILLON_KEY="+s.call.Key,
		"CARILLON_STEP="+step.ID,
		"CARILLON_WORK_DIR="+s.workDir,
		"CARILLON_RUN_DIR="+s.files(),
		"CARILLON_STATE="+s.stateFile(),
	)
	if s.call.Events != nil {
		env = append(env, "CARILLON_EVENTS="+s.eventsFile())
	}
	if e.cfg.BaseURL != "" {
		env = append(env, "CARILLON_URL="+strings.TrimRight(e.cfg.BaseURL, "/"))
	}
	if e.cfg.Environment != "" {
		env = append(env, "CARILLON_ENVIRONMENT="+e.cfg.Environment)
	}
	for _, need := range step.Needs {
		name := "CARILLON_NEED_" + variable(need)
		env = append(env, name+"="+ended[need].Status, fmt.Sprintf("%s_CODE=%d", name, ended[need].Code))
	}
	return env
}

// secretsOf are the values of variables with names of secrets.
func secretsOf(env []string) (values []string) {
	for _, setting := range env {
		name, value, _ := strings.Cut(setting, "=")
		if output.SecretName(name) && !strings.HasPrefix(name, "CARILLON_") {
			values = append(values, value)
		}
	}
	return values
}

// inputMembers are the top-level strings, numbers and booleans of an input object as
// INPUT_<NAME>, for shell scripts without a JSON parser.
func inputMembers(input json.RawMessage) map[string]string {
	var object map[string]json.RawMessage
	if json.Unmarshal(input, &object) != nil {
		return nil
	}
	members := make(map[string]string)
	for name, raw := range object {
		if !envName.MatchString(name) {
			continue
		}
		value := string(raw) // a number or a boolean, as written
		switch raw[0] {
		case '{', '[', 'n':
			continue
		case '"':
			if json.Unmarshal(raw, &value) != nil || strings.ContainsRune(value, 0) {
				continue
			}
		}
		members["INPUT_"+strings.ToUpper(name)] = value
	}
	return members
}

// variable turns a step id into a part of a variable's name.
func variable(id string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, id)
}

func appendSorted(env []string, settings map[string]string) []string {
	names := make([]string, 0, len(settings))
	for name := range settings {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		env = append(env, name+"="+settings[name])
	}
	return env
}

// lookup finds a variable as a command would see it: the last setting counts.
func lookup(env []string, name string) (string, bool) {
	for _, setting := range slices.Backward(env) {
		if n, value, _ := strings.Cut(setting, "="); n == name {
			return value, true
		}
	}
	return "", false
}
