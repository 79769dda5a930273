package alert

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// ExpectationStore stores the state of expectations.
type ExpectationStore interface {
	// EvaluateExpectations passes the expectations with a due judge_at to decide, each locked for
	// this transaction, and writes the verdicts, one for each, with their alerts and messages. It
	// skips those that another caller has locked. decide is pure and may be called again.
	EvaluateExpectations(ctx context.Context, req schedule.EvaluateRequest, decide func([]schedule.ExpectationCase) []schedule.ExpectationVerdict) (evaluated int, err error)
	// WakeFailures makes up to limit schedules due whose failures changed since their last check
	// (kind failure). A schedule that fails for the first time gets its expectation here.
	WakeFailures(ctx context.Context, now time.Time, limit int) error
	// FailureGroups are the failing schedules of an owner, "" = all, by reason and error code.
	FailureGroups(ctx context.Context, userID string) ([]schedule.FailureGroup, error)
	// CountDead counts dead runs by schedule; of very many the newest limit.
	CountDead(ctx context.Context, since time.Time, limit int) ([]schedule.DeadCount, error)
	// UnmetExpectations counts late and alerting expectations by kind.
	UnmetExpectations(ctx context.Context) (map[schedule.ExpectationKind]int, error)
	// ListExpectations are the states of one schedule, ordered by kind.
	ListExpectations(ctx context.Context, scheduleID string) ([]schedule.ExpectationState, error)
}

// Ledger stores the alerts.
type Ledger interface {
	// ListAlerts returns alerts, the newest opened first.
	ListAlerts(ctx context.Context, f schedule.AlertFilter) ([]schedule.Alert, error)
	// GetAlert returns schedule.ErrNotFound for an unknown alert.
	GetAlert(ctx context.Context, alertID string) (*schedule.Alert, error)
	// AckAlert acknowledges an alert; the first acknowledgement stays. schedule.ErrNotFound.
	AckAlert(ctx context.Context, ack schedule.AlertAck) error
}

// Outbox stores the messages.
type Outbox interface {
	// GroupAlerts puts pending notices into groups and calls decide for each group that changed or
	// is due. It is one transaction, and no two run at once. more: there is more than q.Limit.
	GroupAlerts(ctx context.Context, q schedule.AlertGrouping, decide schedule.GroupDecision) (more bool, err error)
	// InsertDeliveries adds messages to be sent at once; one that is there stays as
	// it is.
	InsertDeliveries(ctx context.Context, deliveries []schedule.AlertDelivery) error
	// ClaimDeliveries claims pending messages with a due next_at, oldest first, each for one
	// caller until the lease ends, and counts the attempt.
	ClaimDeliveries(ctx context.Context, c schedule.DeliveryClaim) ([]schedule.AlertDelivery, error)
	// SettleDelivery writes the result of an attempt; false: a newer attempt exists, and nothing
	// was written.
	SettleDelivery(ctx context.Context, d schedule.DeliverySettlement) (moved bool, err error)
	// ListDeliveries returns messages, newest first.
	ListDeliveries(ctx context.Context, f schedule.DeliveryFilter) ([]schedule.AlertDelivery, error)
	// Redeliver sends an ended or waiting message again and returns it; one in progress stays
	// unchanged. schedule.ErrNotFound.
	Redeliver(ctx context.Context, again schedule.Redelivery) (*schedule.AlertDelivery, error)
}
