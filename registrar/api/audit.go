package api

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// AuditTrail stores audit entries; every store implements it.
type AuditTrail interface {
	AppendAudit(ctx context.Context, entries []schedule.AuditEntry) error
	// ListAudit returns rows, newest first.
	ListAudit(ctx context.Context, f schedule.AuditFilter) ([]schedule.AuditEntry, error)
}

// Auditor writes changing calls to the audit trail. A change that wrote its entry in its
// transaction is not written twice. Refused calls, and calls without such a transaction, are
// written after they end. Equal refusals share a row per minute, see refusalFold.
//
// Unauthenticated callers and invalid requests leave no row: a stranger must not be able to fill a
// table.
type Auditor struct {
	trail   AuditTrail
	now     func() time.Time
	log     *slog.Logger
	refused refusalFold
}

// NewAuditor makes an Auditor. Run must run while calls are served, and Flush
// come after the last of them.
func NewAuditor(trail AuditTrail, now func() time.Time, log *slog.Logger) *Auditor {
	return &Auditor{trail: trail, now: now, log: log.With("component", "audit"), refused: newRefusalFold()}
}

// Interceptors returns the interceptor that writes the trail; it must run outside of the
// authorization check.
func (a *Auditor) Interceptors() Interceptors { return Interceptors{Unary: a.unary} }

// auditTimeout bounds one write.
const auditTimeout = 2 * time.Second

func (a *Auditor) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	rule, known := auth.RuleOf(info.FullMethod)
	if !known || !rule.Audit {
		return next(ctx, req)
	}
	ctx, call := auth.WithCall(ctx, info.FullMethod)
	call.Audited = true
	if m, ok := req.(proto.Message); ok {
		call.RequestID, call.Target = said(m.ProtoReflect(), "request_id"), targetOf(m.ProtoReflect())
	}
	resp, err := next(ctx, req)
	code := CodeOf(err)
	if call.Recorded || !worthKeeping(code) || dryRun(req) {
		return resp, err
	}
	e := schedule.AuditEntry{
		Time: a.now(), Subject: call.Identity.Subject, Via: call.Identity.Via, Method: call.Name(), Target: call.Target,
		RequestID: call.RequestID, Code: code.String(),
	}
	if code == codes.OK {
		if m, ok := req.(proto.Message); ok {
			e.UserID = ownerOf(m.ProtoReflect())
		}
		if lost := a.append(ctx, e); lost != nil {
			a.lost(ctx, &e, lost)
		}
	} else if a.refused.begins(&e) {
		a.write(ctx, e)
	}
	return resp, err
}

func (a *Auditor) append(ctx context.Context, entries ...schedule.AuditEntry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer cancel()
	return a.trail.AppendAudit(ctx, entries)
}

func (a *Auditor) lost(ctx context.Context, e *schedule.AuditEntry, why error) {
	a.log.ErrorContext(ctx, "cannot write the audit row", "method", e.Method, "target", e.Target, "subject", e.Subject, "code", e.Code, "count", max(e.Count, 1), "err", why)
}

// worthKeeping leaves out unauthenticated callers, invalid requests and internal errors: those
// changed nothing and are in the log.
func worthKeeping(code codes.Code) bool {
	return slices.Contains([]codes.Code{
		codes.OK, codes.PermissionDenied, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.Aborted,
	}, code)
}

func dryRun(req any) bool {
	m, ok := req.(interface{ GetDryRun() bool })
	return ok && m.GetDryRun()
}

// targetOf is the id that a request is about, found by the names of id fields.
func targetOf(m protoreflect.Message) string {
	for _, name := range []protoreflect.Name{"group_id", "limit_id", "queue_id", "schedule_id", "idempotency_key", "workflow_id", "grant_id", "backfill_id", "set", "shard", "alert_id", "delivery_id"} {
		if text := said(m, name); text != "" {
			return text
		}
	}
	return ""
}

// ownerOf is the owner that a request names: whom a version is stored for, or a
// workflow shared with.
func ownerOf(m protoreflect.Message) string {
	if said(m, "all_owners") == "true" {
		return schedule.AllOwners
	}
	return said(m, "user_id")
}

// said is a field of the request as text, cut to the length of an id.
func said(m protoreflect.Message, name protoreflect.Name) string {
	fd := m.Descriptor().Fields().ByName(name)
	if fd == nil || fd.IsList() || fd.IsMap() {
		return ""
	}
	return schedule.Storable(m.Get(fd).String(), schedule.MaxIDLength)
}

type auditServer struct {
	carillonv1.UnimplementedAuditServiceServer
	trail AuditTrail
}

func (s *auditServer) ListAudit(ctx context.Context, req *carillonv1.ListAuditRequest) (*carillonv1.ListAuditResponse, error) {
	before, err := auditPage.positive(req.GetPageToken(), math.MaxInt64)
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	rows, err := s.trail.ListAudit(ctx, schedule.AuditFilter{
		Subject: req.GetSubject(), Target: req.GetTarget(), Method: req.GetMethod(),
		From: fromTimestamp(req.GetFrom()), To: fromTimestamp(req.GetTo()), BeforeID: before, Limit: size + 1,
	})
	if err != nil {
		return nil, err
	}
	shown, more := page(rows, size, small)
	resp := &carillonv1.ListAuditResponse{}
	for i := range shown {
		e := &shown[i]
		resp.Entries = append(resp.Entries, &carillonv1.AuditEntry{
			Time: timestamp(e.Time), Subject: e.Subject, Via: e.Via, Method: e.Method, Target: e.Target, UserId: e.UserID, RequestId: e.RequestID,
			Code: e.Code, RevisionBefore: count32(e.RevisionBefore), RevisionAfter: count32(e.RevisionAfter),
			Count: count32(e.Count), OtherTargets: e.OtherTargets,
		})
	}
	if more {
		resp.NextPageToken = auditPage.number(shown[len(shown)-1].ID)
	}
	return resp, nil
}
