package auth

import (
	"slices"
	"strings"
)

// Rule says who may make one call.
type Rule struct {
	Roles  []Role
	Anyone bool // admits callers without valid credentials
	Report bool // also admits a run's report token, which the handler checks
	Audit  bool // records the call in the audit trail
	Write  bool // counts as a change for rate limits, although it has no audit entry
}

var (
	enqueues     = Rule{Roles: []Role{Compiler, User, Operator}, Write: true}
	publishes    = Rule{Roles: []Role{Compiler, User, Operator, Publisher}, Write: true}
	changes      = Rule{Roles: []Role{Compiler, User, Operator}, Audit: true}
	reads        = Rule{Roles: []Role{Compiler, User, Worker, Operator, Viewer}}
	readsGrants  = Rule{Roles: []Role{Compiler, User, Operator, Viewer}}
	grants       = Rule{Roles: []Role{Compiler, User, Operator}, Audit: true} // on which resources: grant.MayGive
	revokes      = Rule{Roles: []Role{User, Operator}, Audit: true}
	launches     = Rule{Roles: []Role{Worker}}
	fetches      = Rule{Roles: []Role{Executor}}
	reports      = Rule{Roles: []Role{Executor, Launcher}, Report: true}
	operates     = Rule{Roles: []Role{Operator}, Audit: true}
	inspects     = Rule{Roles: []Role{Operator, Viewer}}
	shares       = Rule{Roles: []Role{Compiler, Operator}, Audit: true}
	readsShares  = Rule{Roles: []Role{Compiler, Operator, Viewer}}
	operatorOnly = Rule{Roles: []Role{Operator}}
	anyone       = Rule{Anyone: true}
)

// rules maps each full method to the roles that may call it. Other methods are denied; a test fails
// for a registered method without an entry.
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
	"/carillon.v1.WorkflowService/ListWorkflowShares":   readsShares,

	"/carillon.v1.RunService/GetRun":            reads,
	"/carillon.v1.RunService/ExplainRun":        reads,
	"/carillon.v1.RunService/GetRunLogs":        reads,
	"/carillon.v1.RunService/ListRuns":          reads,
	"/carillon.v1.RunService/WatchRuns":         reads,
	"/carillon.v1.RunService/ExportRuns":        reads,
	"/carillon.v1.RunService/CancelRun":         changes,
	"/carillon.v1.RunService/CancelRuns":        changes,
	"/carillon.v1.RunService/RetryRun":          changes,
	"/carillon.v1.RunService/RedriveRuns":       changes,
	"/carillon.v1.RunService/RedeliverWebhooks": changes,
	"/carillon.v1.RunService/UpdateRun":         changes,
	"/carillon.v1.RunService/MoveRun":           changes,
	"/carillon.v1.RunService/ReportRun":         reports,

	"/carillon.v1.QueueService/UpsertQueue":     changes,
	"/carillon.v1.QueueService/GetQueue":        reads,
	"/carillon.v1.QueueService/ListQueues":      reads,
	"/carillon.v1.QueueService/DeleteQueue":     changes,
	"/carillon.v1.QueueService/PauseQueue":      changes,
	"/carillon.v1.QueueService/ResumeQueue":     changes,
	"/carillon.v1.QueueService/CloseQueue":      changes,
	"/carillon.v1.QueueService/OpenQueue":       changes,
	"/carillon.v1.QueueService/ListQueueEvents": reads,
	"/carillon.v1.QueueService/EnqueueRun":      enqueues,
	"/carillon.v1.QueueService/EnqueueRuns":     enqueues,
	"/carillon.v1.QueueService/ListWaiting":     reads,
	"/carillon.v1.QueueService/SimulateQueue":   reads,

	"/carillon.v1.QueueService/ReserveSlot":        changes,
	"/carillon.v1.QueueService/GetReservation":     reads,
	"/carillon.v1.QueueService/ListReservations":   reads,
	"/carillon.v1.QueueService/ExtendReservation":  enqueues,
	"/carillon.v1.QueueService/ReleaseReservation": changes,

	"/carillon.v1.GroupService/CreateGroup": changes,
	"/carillon.v1.GroupService/AddToGroup":  changes,
	"/carillon.v1.GroupService/SealGroup":   changes,
	"/carillon.v1.GroupService/GetGroup":    reads,
	"/carillon.v1.GroupService/ListGroups":  reads,
	"/carillon.v1.GroupService/CancelGroup": changes,
	"/carillon.v1.GroupService/RetryGroup":  changes,

	"/carillon.v1.OverlapGroupService/ListOverlapGroups": reads,
	"/carillon.v1.OverlapGroupService/GetOverlapGroup":   reads,
	"/carillon.v1.OverlapGroupService/RunOverlapGroup":   changes,
	"/carillon.v1.EventService/PublishEvents":            publishes,
	"/carillon.v1.EventService/GetEvent":                 reads,
	"/carillon.v1.EventService/ExplainEvent":             reads,
	"/carillon.v1.EventService/ListEvents":               reads,
	"/carillon.v1.EventService/ListInbox":                reads,
	"/carillon.v1.EventService/GetHandlerState":          reads,
	"/carillon.v1.EventService/SetHandlerState":          changes,
	"/carillon.v1.EventService/ListTopics":               reads,
	"/carillon.v1.EventService/GetTopic":                 reads,
	"/carillon.v1.EventService/AuditTopic":               reads,

	"/carillon.v1.LimitService/UpsertLimit": changes,
	"/carillon.v1.LimitService/GetLimit":    reads,
	"/carillon.v1.LimitService/ListLimits":  reads,
	"/carillon.v1.LimitService/DeleteLimit": changes,
	"/carillon.v1.LimitService/SetLimitKey": changes,

	"/carillon.v1.GrantService/CreateGrant": grants,
	"/carillon.v1.GrantService/GetGrant":    readsGrants,
	"/carillon.v1.GrantService/ListGrants":  readsGrants,
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

	"/carillon.v1.AuditService/ListAudit": operatorOnly,

	"/carillon.v1.RunLauncher/Start":      launches,
	"/carillon.v1.RunLauncher/StartBatch": launches,
	"/carillon.v1.RunLauncher/Cancel":     launches,
	"/carillon.v1.RunLauncher/FetchRuns":  fetches,

	"/grpc.health.v1.Health/Check": anyone,
	"/grpc.health.v1.Health/List":  anyone,
	"/grpc.health.v1.Health/Watch": anyone,

	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      operatorOnly,
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": operatorOnly,
}

// RuleOf returns the rule of a full method such as /carillon.v1.RunService/GetRun.
func RuleOf(method string) (rule Rule, ok bool) {
	rule, ok = rules[method]
	return rule, ok
}

// Admit reduces the identity to the roles that allow this call. It clears Owner if a role that acts for
// all owners allows the call: a user who is also a viewer sees all rows but changes only its own.
func (r Rule) Admit(id Identity) (admitted Identity, ok bool) {
	admitted = Identity{Subject: id.Subject, Via: id.Via, Owner: id.Owner, Accounts: id.Accounts, Expires: id.Expires}
	for _, role := range id.Roles {
		if !slices.Contains(r.Roles, role) {
			continue
		}
		admitted.Roles = append(admitted.Roles, role)
		if !role.OfOwner() {
			admitted.Owner = ""
		}
	}
	return admitted, len(admitted.Roles) > 0 && (admitted.Owner != "" || slices.ContainsFunc(admitted.Roles, func(role Role) bool { return !role.OfOwner() }))
}

// Names joins the roles of the rule.
func (r Rule) Names() string {
	words := make([]string, len(r.Roles))
	for i, role := range r.Roles {
		words[i] = string(role)
	}
	return strings.Join(words, ", ")
}
