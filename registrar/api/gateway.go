package api

import (
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// Limits of a REST body. Its fields are checked one by one afterwards.
const (
	maxBody    = 256 << 10
	maxDAGBody = maxRequestBytes
	// maxEventsBody fits 1 MiB of data with the other fields of 1000 events.
	maxEventsBody = 3 << 20
)

// GatewayOptions are the gateway's options.
type GatewayOptions struct {
	Launcher bool // POST /run-launcher/start
	// ReportToken reports whether a token is the one of a run's reports. nil: none is.
	ReportToken func(key schedule.Key, token string) bool
}

// NewGateway is the REST side: each call becomes one gRPC call over conn,
// which Loopback makes.
func NewGateway(ctx context.Context, conn grpc.ClientConnInterface, o GatewayOptions) (http.Handler, error) {
	mux := runtime.NewServeMux(
		// Any Content-Type: curl -d sends that of a form.
		runtime.WithMarshalerOption(runtime.MIMEWildcard, marshaler{}),
		runtime.WithIncomingHeaderMatcher(passedOn),
		runtime.WithErrorHandler(answerError),
		runtime.WithRoutingErrorHandler(answerRouting),
		runtime.WithDisablePathLengthFallback(), // and a POST is never taken for a GET
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithForwardResponseOption(tagRevision),
	)
	checked := checkedConn{conn}
	err := errors.Join(
		carillonv1.RegisterScheduleServiceHandlerClient(ctx, mux, carillonv1.NewScheduleServiceClient(checked)),
		carillonv1.RegisterWorkflowServiceHandlerClient(ctx, mux, carillonv1.NewWorkflowServiceClient(checked)),
		carillonv1.RegisterGrantServiceHandlerClient(ctx, mux, carillonv1.NewGrantServiceClient(checked)),
		carillonv1.RegisterQueueServiceHandlerClient(ctx, mux, carillonv1.NewQueueServiceClient(checked)),
		carillonv1.RegisterGroupServiceHandlerClient(ctx, mux, carillonv1.NewGroupServiceClient(checked)),
		carillonv1.RegisterOverlapGroupServiceHandlerClient(ctx, mux, carillonv1.NewOverlapGroupServiceClient(checked)),
		carillonv1.RegisterLimitServiceHandlerClient(ctx, mux, carillonv1.NewLimitServiceClient(checked)),
		carillonv1.RegisterEventServiceHandlerClient(ctx, mux, carillonv1.NewEventServiceClient(checked)),
		carillonv1.RegisterRunServiceHandlerClient(ctx, mux, carillonv1.NewRunServiceClient(checked)),
		carillonv1.RegisterWorkerServiceHandlerClient(ctx, mux, carillonv1.NewWorkerServiceClient(checked)),
		carillonv1.RegisterAlertServiceHandlerClient(ctx, mux, carillonv1.NewAlertServiceClient(checked)),
		carillonv1.RegisterAuditServiceHandlerClient(ctx, mux, carillonv1.NewAuditServiceClient(checked)),
	)
	if o.Launcher {
		err = errors.Join(err, carillonv1.RegisterRunLauncherHandlerClient(ctx, mux, carillonv1.NewRunLauncherClient(checked)))
	}
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit, report := int64(maxBody), strings.HasSuffix(r.URL.Path, ":report")
		switch {
		case strings.HasPrefix(r.URL.Path, "/v1/workflows/"):
			limit = maxDAGBody
		case r.URL.Path == eventsPath, strings.HasPrefix(r.URL.Path, "/v1/topics/"):
			limit = maxEventsBody
		case r.URL.Path == "/v1/schedules:apply", strings.HasPrefix(r.URL.Path, "/v1/queues/") && strings.HasSuffix(r.URL.Path, "/runs:batch"):
			limit = schedule.MaxApplyBytes
		case report: // read before the run's token is checked
			limit = reportLimit(r, o.ReportToken)
		}
		sent := &sent{ReadCloser: http.MaxBytesReader(w, r.Body, limit), method: r.Method, query: r.URL.Query(), anyBytes: report}
		r = r.WithContext(context.WithValue(r.Context(), sentKey{}, sent))
		r.Body = sent
		markDeprecated(w.Header(), r)
		if err := sent.readCloudEvents(r); err != nil {
			answerError(r.Context(), mux, marshaler{}, w, r, err)
			return
		}
		mux.ServeHTTP(w, r)
	}), nil
}

// jobsDeprecated is 2026-11-27, the day on which /jobs was deprecated.
const jobsDeprecated = "@1795737600"

// markDeprecated names the successor of the paths that older clients use for jobs: RFC 9745 and
// RFC 8288.
func markDeprecated(h http.Header, r *http.Request) {
	key, one := strings.CutPrefix(r.URL.Path, "/jobs/")
	of, retry := strings.CutPrefix(r.URL.Path, "/api/job-runs/")
	successor := "/v1/runs"
	switch {
	case retry:
		successor += "/" + url.PathEscape(strings.TrimSuffix(of, "/retry")) + ":retry"
	case one && r.Method == http.MethodDelete:
		successor += "/" + url.PathEscape(key) + ":cancel"
	case one:
		successor += "/" + url.PathEscape(key)
	case r.URL.Path != "/jobs":
		return
	case r.Method == http.MethodPost:
		successor = "/v1/queues/" + schedule.DefaultQueueID + "/runs"
	}
	h.Set("Deprecation", jobsDeprecated)
	h.Set("Link", "<"+successor+`>; rel="successor-version"`)
}

// reportLimit bounds the body of a report. The token is checked before the body is read, so that
// only the run's executor can send a large one.
func reportLimit(r *http.Request, good func(schedule.Key, string) bool) int64 {
	name := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/v1/runs/"), ":report")
	key, err := schedule.ParseKey(name)
	if err != nil || good == nil {
		return maxReportBody
	}
	token := r.Header.Get(reportHeader)
	if scheme, shown, ok := strings.Cut(r.Header.Get("Authorization"), " "); token == "" && ok && strings.EqualFold(scheme, "bearer") {
		token = strings.TrimSpace(shown)
	}
	if token != "" && good(key, token) {
		return maxReportBodyProved
	}
	return maxReportBody
}

// passedOn are the headers that calls see, and under which names.
func passedOn(header string) (name string, ok bool) {
	if strings.EqualFold(header, reportHeader) {
		return reportHeader, true
	}
	// No call takes binary metadata, and the gateway would refuse text in it.
	name, ok = runtime.DefaultHeaderMatcher(header)
	return name, ok && !strings.HasSuffix(strings.ToLower(name), "-bin")
}

// Loopback is a connection inside the process: serve the listener with the gRPC server, and close
// conn at the end.
func Loopback() (*bufconn.Listener, *grpc.ClientConn, error) {
	const window = 256 << 10
	lis := bufconn.Listen(window)
	conn, err := grpc.NewClient("passthrough:///loopback",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // it never leaves the process
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)),
	)
	return lis, conn, err
}

// answerRouting answers requests without a call. By default the gateway answers 501 to an unknown
// method of a path.
func answerRouting(ctx context.Context, mux *runtime.ServeMux, m runtime.Marshaler, w http.ResponseWriter, r *http.Request, code int) {
	if code != http.StatusMethodNotAllowed {
		runtime.DefaultRoutingErrorHandler(ctx, mux, m, w, r, code)
		return
	}
	answerError(ctx, mux, m, w, r, &runtime.HTTPStatusError{
		HTTPStatus: code, Err: status.Errorf(codes.Unimplemented, "%s has no %s", r.URL.Path, r.Method),
	})
}

// answerError answers with a google.rpc.Status and its HTTP code.
func answerError(ctx context.Context, mux *runtime.ServeMux, m runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	if s, ok := r.Context().Value(sentKey{}).(*sent); ok && s.refused != nil {
		err = statusOf(s.refused).Err() // the gateway kept no more of it than its text
	}
	if refused := unreadable(r.URL.Query(), status.Convert(err).Message()); refused != nil {
		err = statusOf(refused).Err()
	}
	code := 0
	var routing *runtime.HTTPStatusError
	if errors.As(err, &routing) {
		code, err = routing.HTTPStatus, routing.Err
	}
	st := status.Convert(err).Proto()
	st.Message = schedule.Storable(st.GetMessage(), maxText) // the gateway's messages may quote any bytes of the path
	err = status.ErrorProto(st)
	if code == 0 {
		code = httpStatus(status.Convert(err))
	}
	if wait := retryAfter(status.Convert(err)); wait != "" {
		w.Header().Set("Retry-After", wait)
	}
	runtime.DefaultHTTPErrorHandler(ctx, mux, m, w, r, &runtime.HTTPStatusError{HTTPStatus: code, Err: err})
}

// retryAfter is RetryInfo in whole seconds, as HTTP has it, or empty.
func retryAfter(st *status.Status) string {
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return strconv.Itoa(max(1, int(math.Ceil(info.GetRetryDelay().AsDuration().Seconds()))))
		}
	}
	return ""
}

// httpStatus is the gateway's default mapping with four exceptions.
func httpStatus(st *status.Status) int {
	for _, detail := range st.Details() {
		info, ok := detail.(*errdetails.ErrorInfo)
		switch {
		case ok && info.GetReason() == ReasonKeyConflict:
			return http.StatusUnprocessableEntity
		case ok && info.GetReason() == ReasonUnpayable:
			return http.StatusPaymentRequired
		case ok && info.GetReason() == ReasonStale:
			return http.StatusPreconditionFailed
		}
	}
	if st.Code() == codes.FailedPrecondition {
		return http.StatusConflict
	}
	return runtime.HTTPStatusFromCode(st.Code())
}
