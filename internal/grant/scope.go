package grant

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carillon/carillon/internal/schedule"
)

// A scope is graph:execute:ID for one workflow, graph:execute:PREFIX:* for all
// whose id begins with PREFIX: (with its colon), or graph:execute:* for all.
const (
	execute = "graph:execute:"
	all     = "*"
	each    = ":*" // ends a prefix
)

// MaxScopes caps the scopes of a grant.
const MaxScopes = 64

const hint = `write graph:execute:WORKFLOW_ID, graph:execute:PREFIX:* for ids that begin with "PREFIX:", or graph:execute:*`

// Check returns the problems of a grant's scopes, each behind prefix. A scope for all
// workflows also needs allowAll.
func Check(c *schedule.Collect, prefix string, scopes []string, allowAll bool) {
	field := prefix + "scopes"
	switch {
	case len(scopes) == 0:
		c.Note(field, "is empty", hint)
	case len(scopes) > MaxScopes:
		c.Note(field, fmt.Sprintf("has %d scopes, more than %d", len(scopes), MaxScopes), "use a prefix, or several grants")
		return
	}
	for i, scope := range scopes {
		if problem := problemOf(scope); problem != "" {
			c.Add(fmt.Sprintf("%s[%d]", field, i), scope, problem, hint)
		}
	}
	switch unlimited := slices.Contains(scopes, execute+all); {
	case unlimited && !allowAll:
		c.Add(field, execute+all, "allows every workflow, including future ones", "name the workflows, or also set allow_all_workflows")
	case allowAll && !unlimited:
		c.Note(prefix+"allow_all_workflows", "is set, but no scope is "+execute+all, "leave it out, or add the scope")
	}
}

// problemOf returns why a scope is invalid; empty: it is valid.
func problemOf(scope string) string {
	what, ok := strings.CutPrefix(scope, execute)
	switch {
	case !ok:
		return "does not begin with " + execute
	case what == all:
		return ""
	}
	if prefix, isPrefix := strings.CutSuffix(what, each); isPrefix {
		if !schedule.ValidID(prefix) {
			return "has a prefix that no workflow id can have"
		}
		return ""
	}
	if strings.Contains(what, all) {
		return "has a * that is neither the whole scope nor after its last colon"
	}
	if !schedule.ValidID(what) {
		return "names no valid workflow id"
	}
	return ""
}

// Sorted returns scopes as a grant stores them: in order, each once.
func Sorted(scopes []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(scopes)))
}

// allows reports whether one of the scopes covers a workflow.
func allows(scopes []string, workflowID string) bool {
	return slices.ContainsFunc(scopes, func(scope string) bool { return covers(scope, workflowID) })
}

// covers is false for an invalid scope: it permits nothing.
func covers(scope, workflowID string) bool {
	what, ok := strings.CutPrefix(scope, execute)
	if !ok || problemOf(scope) != "" {
		return false
	}
	if what == all {
		return true
	}
	if prefix, isPrefix := strings.CutSuffix(what, all); isPrefix {
		return len(workflowID) > len(prefix) && strings.HasPrefix(workflowID, prefix)
	}
	return what == workflowID
}
