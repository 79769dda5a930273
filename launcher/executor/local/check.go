package local

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/carillon/carillon/internal/schedule"
)

var (
	envName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	fileName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$`) // no folder, no leading dot
)

// check refuses a DAG that cannot run, or would not do what it seems to say.
func check(bad *schedule.Collect, dag *DAG) {
	checkEnv(bad, "env", dag.Env)
	place := make(map[string]int, len(dag.Steps))
	for i := range dag.Steps {
		step := &dag.Steps[i]
		at := fmt.Sprintf("steps[%d]", i)
		if !schedule.ValidID(step.ID) || len(step.ID) > MaxStepID {
			bad.Add(at+".id", step.ID, "is not an id", fmt.Sprintf("use 1 to %d of A–Z a–z 0–9 . _ : -", MaxStepID))
		} else if first, taken := place[step.ID]; taken {
			bad.Add(at+".id", step.ID, fmt.Sprintf("is also the id of steps[%d]", first), "use unique ids")
		} else {
			place[step.ID] = i
		}
		checkStep(bad, at, step)
	}
	checkNeeds(bad, dag, place)
}

func checkStep(bad *schedule.Collect, at string, step *Step) {
	kinds := 0
	for _, given := range []bool{step.Run != nil, step.Shell != "", step.HTTP != nil} {
		if given {
			kinds++
		}
	}
	if kinds != 1 {
		bad.Note(at, fmt.Sprintf("has %d of run, shell and http", kinds), "give exactly one")
	}
	if step.Run != nil && (len(step.Run) == 0 || step.Run[0] == "") {
		bad.Note(at+".run", "names no program", `write ["program", "argument", …]`)
	}
	if strings.ContainsRune(string(step.Shell)+step.Dir+strings.Join(step.Run, ""), 0) {
		bad.Note(at, "holds a NUL character in run, shell or dir", "remove it")
	}
	checkEnv(bad, at+".env", step.Env)
	if step.TimeoutMS < 0 || step.TimeoutMS > MaxStepTimeout.Milliseconds() {
		bad.Add(at+".timeout_ms", step.TimeoutMS, "is out of bounds", fmt.Sprintf("give 1 to %d, or leave it out", MaxStepTimeout.Milliseconds()))
	}
	if step.Retries < 0 || step.Retries > MaxRetries {
		bad.Add(at+".retries", step.Retries, "is out of bounds", fmt.Sprintf("give 0 to %d", MaxRetries))
	}
	if step.RetryDelayMS < 0 || step.RetryDelayMS > MaxRetryDelay.Milliseconds() {
		bad.Add(at+".retry_delay_ms", step.RetryDelayMS, "is out of bounds", fmt.Sprintf("give 1 to %d, or leave it out for one second", MaxRetryDelay.Milliseconds()))
	}
	if step.HTTP != nil {
		checkCall(bad, at+".http", step.HTTP)
	}
}

func checkCall(bad *schedule.Collect, at string, call *HTTPCall) {
	if call.URL == "" {
		bad.Note(at+".url", "is empty", "write an absolute http or https URL")
	}
	if strings.ContainsFunc(call.Method, func(r rune) bool { return r < 'A' || r > 'Z' }) {
		bad.Add(at+".method", call.Method, "is not a method", "write it in capitals: GET, POST, PUT, …")
	}
	for _, status := range call.ExpectStatus {
		if status < 100 || status > 599 {
			bad.Add(at+".expect_status", status, "is not an HTTP status", "give numbers from 100 to 599")
		}
	}
	if call.SaveAs != "" && !fileName.MatchString(call.SaveAs) {
		bad.Add(at+".save_as", call.SaveAs, "is not a file name", "give a name without folders, of A–Z a–z 0–9 . _ -")
	}
	for name, value := range call.Headers {
		if http.CanonicalHeaderKey(name) == "" || strings.ContainsAny(name, " :\r\n\x00") || strings.ContainsAny(value, "\r\n\x00") {
			bad.Add(at+".headers", name, "is not a header of one line", "")
		}
	}
}

func checkEnv(bad *schedule.Collect, at string, env map[string]string) {
	for name, value := range env {
		switch {
		case !envName.MatchString(name):
			bad.Add(at, name, "is not a variable's name", "use A–Z a–z 0–9 _, not beginning with a digit")
		case strings.HasPrefix(name, "CARILLON_"):
			bad.Add(at, name, "is set by Carillon", "choose a name that does not begin with CARILLON_")
		case strings.ContainsRune(value, 0):
			bad.Add(at, name, "holds a NUL character", "remove it")
		}
	}
}

// checkNeeds refuses unknown needs and cycles.
func checkNeeds(bad *schedule.Collect, dag *DAG, place map[string]int) {
	waiting := make(map[string][]string, len(dag.Steps))
	for i := range dag.Steps {
		step := &dag.Steps[i]
		for _, need := range step.Needs {
			if _, known := place[need]; !known {
				bad.Add(fmt.Sprintf("steps[%d].needs", i), need, "is not the id of a step", "name a step of this DAG")
				return
			}
		}
		waiting[step.ID] = step.Needs
	}
	// Remove repeatedly the steps that need none of the remaining ones.
	for removed := true; removed; {
		removed = false
		for id, needs := range waiting {
			if !slices.ContainsFunc(needs, func(n string) bool { _, left := waiting[n]; return left }) {
				delete(waiting, id)
				removed = true
			}
		}
	}
	if len(waiting) == 0 {
		return
	}
	circle := make([]string, 0, len(waiting))
	for i := range dag.Steps {
		if _, left := waiting[dag.Steps[i].ID]; left {
			circle = append(circle, dag.Steps[i].ID)
		}
	}
	bad.Add("steps", strings.Join(circle, ", "), "depend on each other in a cycle, or on steps in one", "remove one dependency")
}
