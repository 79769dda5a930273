package auth

import (
	"maps"
	"slices"
	"strings"
)

// Rule says who may make one call.
type Rule struct {
	Roles []Role
	// Anyone lets callers in who show nothing, or something that is not valid.
	Anyone bool
	// Report also admits the run's own token, which the call itself checks.
	Report bool
	// Audit writes the call to the audit trail.
	Audit bool
}

var (
	changes   = Rule{Roles: []Role{Compiler, User, Operator}, Audit: true}
	reads     = Rule{Roles: []Role{Compiler, User, Worker, Operator, Viewer}}
	consents  = Rule{Roles: []Role{Compiler, User, Operator, Viewer}}
	gives     = Rule{Roles: []Role{Compiler, User, Operator}, Audit: true} // on what: grant.MayGive
	revokes   = Rule{Roles: []Role{User, Operator}, Audit: true}
	launches  = Rule{Roles: []Role{Worker}}
	reports   = Rule{Roles: []Role{Executor, Launcher}, Report: true}
	operates  = Rule{Roles: []Role{Operator}, Audit: true}
	inspects  = Rule{Roles: []Role{Operator, Viewer}}
	shares    = Rule{Roles: []Role{Compiler, Operator}, Audit: true}
	looks     = Rule{Roles: []Role{Compiler, Operator, Viewer}}
	reflects  = Rule{Roles: []Role{Operator}}
	everybody = Rule{Anyone: true}
)

// rules is the one table of who may call what, by full method. A call that is
// not here is denied, and a test fails for a registered one without an entry.
var rules = map[string]Rule{
	"/carillon.v1.ScheduleService/UpsertSchedule":     changes,
	"/carillon.v1.ScheduleService/PatchSchedule":      changes,
	"/carillon.v1.ScheduleService/GetSchedule":        reads,
	"/carillon.v1.ScheduleService/ListSchedules":      reads,
	"/carillon.v1.ScheduleService/GetOverview":        reads,
	"/carillon.v1.ScheduleService/GroupFailures":      reads,
	"/carillon.v1.ScheduleService/PauseSchedule":      changes,
	"/carillon.v1.ScheduleService/ResumeSchedule":     changes,
	"/carillon.v1.ScheduleService/SetPaused":          changes,
	"/carillon.v1.ScheduleService/DeleteSchedule":     changes,
	"/carillon.v1.ScheduleService/TriggerSchedule":    changes,
	"/carillon.v1.ScheduleService/BackfillSchedule":   changes,
	"/carillon.v1.ScheduleService/GetBackfill":        reads,
	"/carillon.v1.ScheduleService/ListBackfills":      reads,
	"/carillon.v1.ScheduleService/PauseBackfill":      changes,
	"/carillon.v1.ScheduleService/ResumeBackfill":     changes,
	"/carillon.v1.ScheduleService/CancelBackfill":     changes,
	"/carillon.v1.ScheduleService/ApplySchedules":     changes,
	"/carillon.v1.ScheduleService/PreviewSchedule":    reads,
	"/carillon.v1.ScheduleService/ForecastLaunches":   reads,
	"/carillon.v1.ScheduleService/ExplainSlot":        reads,
	"/carillon.v1.ScheduleService/SimulateSchedules":  reads,
	"/carillon.v1.ScheduleService/ListScheduleEvents": reads,
	"/carillon.v1.ScheduleService/ListRevisions":      reads,

	"/carillon.v1.WorkflowService/PutWorkflowVersion":   changes,
	"/carillon.v1.WorkflowService/GetWorkflowVersion":   reads,
	"/carillon.v1.WorkflowService/ListWorkflowVersions": reads,
	"/carillon.v1.WorkflowService/DeployWorkflow":       changes,
	"/carillon.v1.WorkflowService/ShareWorkflow":        shares,
	"/carillon.v1.WorkflowService/UnshareWorkflow":      shares,
	"/carillon.v1.WorkflowService/ListWorkflowShares":   looks,

	"/carillon.v1.RunService/GetRun":     reads,
	"/carillon.v1.RunService/GetRunLogs": reads,
	"/carillon.v1.RunService/ListRuns":   reads,
	"/carillon.v1.RunService/WatchRuns":  reads,
	"/carillon.v1.RunService/ExportRuns": reads,
	"/carillon.v1.RunService/CancelRun":  changes,
	"/carillon.v1.RunService/RetryRun":   changes,
	"/carillon.v1.RunService/ReportRun":  reports,

	"/carillon.v1.GrantService/CreateGrant": gives,
	"/carillon.v1.GrantService/GetGrant":    consents,
	"/carillon.v1.GrantService/ListGrants":  consents,
	"/carillon.v1.GrantService/RevokeGrant": revokes,

	"/carillon.v1.WorkerService/ListWorkers":     inspects,
	"/carillon.v1.WorkerService/ListProcesses":   inspects,
	"/carillon.v1.WorkerService/ListLeaderTerms": inspects,
	"/carillon.v1.WorkerService/Resign":          operates,

	"/carillon.v1.AlertService/ListAlerts":          reads,
	"/carillon.v1.AlertService/GetAlert":            reads,
	"/carillon.v1.AlertService/AcknowledgeAlert":    changes,
	"/carillon.v1.AlertService/ListAlertDeliveries": inspects,
	"/carillon.v1.AlertService/RedeliverAlert":      operates,
	"/carillon.v1.AlertService/TestAlerts":          operates,

	"/carillon.v1.AuditService/ListAudit": {Roles: []Role{Operator}},

	"/carillon.v1.RunLauncher/Start":      launches,
	"/carillon.v1.RunLauncher/StartBatch": launches,
	"/carillon.v1.RunLauncher/Cancel":     launches,

	"/grpc.health.v1.Health/Check": everybody,
	"/grpc.health.v1.Health/List":  everybody,
	"/grpc.health.v1.Health/Watch": everybody,

	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      reflects,
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": reflects,
}

// RuleOf is the entry of a full method such as
// /carillon.v1.RunService/GetRun; ok is false where there is none.
func RuleOf(method string) (rule Rule, ok bool) {
	rule, ok = rules[method]
	return rule, ok
}

// Admit is the identity under which a caller makes this call: with the roles
// that let it, and with its owner only where no other of its roles lets it. So
// a user who is also a viewer sees everything and changes only its own.
func (r Rule) Admit(id Identity) (admitted Identity, ok bool) {
	admitted = Identity{Subject: id.Subject, Via: id.Via, Owner: id.Owner, Accounts: id.Accounts, Expires: id.Expires}
	for _, role := range id.Roles {
		if !slices.Contains(r.Roles, role) {
			continue
		}
		admitted.Roles = append(admitted.Roles, role)
		if role != User {
			admitted.Owner = ""
		}
	}
	return admitted, len(admitted.Roles) > 0 && (admitted.Owner != "" || !slices.Equal(admitted.Roles, []Role{User}))
}

// Names are the roles of the rule in words.
func (r Rule) Names() string {
	words := make([]string, len(r.Roles))
	for i, role := range r.Roles {
		words[i] = string(role)
	}
	return strings.Join(words, ", ")
}

// Methods are all calls that have a rule, sorted.
func Methods() []string {
	return slices.Sorted(maps.Keys(rules))
}
