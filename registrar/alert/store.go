package alert

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// JudgeStore keeps how the promises of schedules stand.
type JudgeStore interface {
	// JudgeExpectations hands the expectations whose judge_at has come to decide,
	// each locked for this transaction alone, and writes the verdicts, one for
	// each, with their alerts and messages. One that another caller has locked is
	// left to it. decide is pure, and may be called again.
	JudgeExpectations(ctx context.Context, req schedule.JudgeRequest, decide func([]schedule.ExpectationCase) []schedule.ExpectationVerdict) (judged int, err error)
	// WakeFailures has the schedules judged whose failures changed since they were
	// judged (kind failure), up to limit of them. A schedule that fails for the first
	// time gets its expectation here.
	WakeFailures(ctx context.Context, now time.Time, limit int) error
	// FailureGroups is the failing schedules of an owner, "" = everybody's, by reason
	// and error code.
	FailureGroups(ctx context.Context, userID string) ([]schedule.FailureGroup, error)
	// UnmetExpectations counts by kind what is late or alerting.
	UnmetExpectations(ctx context.Context) (map[schedule.ExpectationKind]int, error)
	// ListExpectations are the states of one schedule, ordered by kind.
	ListExpectations(ctx context.Context, scheduleID string) ([]schedule.ExpectationState, error)
}

// Ledger keeps the alerts.
type Ledger interface {
	// ListAlerts is newest opened first.
	ListAlerts(ctx context.Context, f schedule.AlertFilter) ([]schedule.Alert, error)
	// GetAlert is schedule.ErrNotFound where there is none.
	GetAlert(ctx context.Context, alertID string) (*schedule.Alert, error)
	// AckAlert notes who has seen to an alert; the first stays. schedule.ErrNotFound.
	AckAlert(ctx context.Context, ack schedule.AlertAck) error
}

// Outbox keeps the messages.
type Outbox interface {
	// GroupAlerts puts pending notices into groups, and has decide say what becomes of
	// each group that changed or that is due. It is one transaction, and no two run at
	// once. more: there is more than q.Limit.
	GroupAlerts(ctx context.Context, q schedule.AlertGrouping, decide schedule.GroupDecision) (more bool, err error)
	// InsertDeliveries adds messages to be sent at once; one that is there stays as
	// it is.
	InsertDeliveries(ctx context.Context, deliveries []schedule.AlertDelivery) error
	// ClaimDeliveries gives out pending messages whose next_at has come, the
	// oldest first, each to one caller for as long as the lease, and counts the attempt.
	ClaimDeliveries(ctx context.Context, c schedule.DeliveryClaim) ([]schedule.AlertDelivery, error)
	// SettleDelivery writes what became of an attempt; false: it is not the newest
	// any more, and nothing was written.
	SettleDelivery(ctx context.Context, d schedule.DeliverySettlement) (moved bool, err error)
	// ListDeliveries is newest first.
	ListDeliveries(ctx context.Context, f schedule.DeliveryFilter) ([]schedule.AlertDelivery, error)
	// Redeliver has a message sent again that has ended, or that waits for its next
	// attempt, and returns it as it then stands; one that is under way stays as it
	// is. schedule.ErrNotFound.
	Redeliver(ctx context.Context, again schedule.Redelivery) (*schedule.AlertDelivery, error)
}
