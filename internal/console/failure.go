package console

import (
	"net/http"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// failure is an error of the services in words.
type failure struct {
	Title      string
	Message    string // from the service
	Violations []violation
	code       int
}

// violation is an error in one field.
type violation struct{ Field, Problem string }

// failureWords are the title and HTTP status of each code.
var failureWords = map[codes.Code]struct {
	title string
	code  int
}{
	codes.InvalidArgument:    {"Invalid request", http.StatusUnprocessableEntity},
	codes.NotFound:           {"Not found", http.StatusNotFound},
	codes.AlreadyExists:      {"Already exists", http.StatusConflict},
	codes.FailedPrecondition: {"Not possible now", http.StatusConflict},
	codes.Aborted:            {"Changed by somebody else at the same time; try again", http.StatusConflict},
	codes.PermissionDenied:   {"Not allowed", http.StatusForbidden},
	codes.Unauthenticated:    {"Sign in again", http.StatusUnauthorized},
	codes.ResourceExhausted:  {"Too many requests; try again later", http.StatusTooManyRequests},
	codes.Unavailable:        {"Database unavailable; try again", http.StatusServiceUnavailable},
	codes.DeadlineExceeded:   {"Timed out; try again", http.StatusGatewayTimeout},
	codes.Canceled:           {"Timed out; try again", http.StatusGatewayTimeout},
	codes.Unimplemented:      {"Not supported by this server", http.StatusNotImplemented},
}

func failureOf(err error) failure {
	st := status.Convert(err)
	words, known := failureWords[st.Code()]
	if !known {
		words.title, words.code = "Server error", http.StatusInternalServerError
	}
	f := failure{Title: words.title, Message: st.Message(), code: words.code}
	for _, detail := range st.Details() {
		bad, ok := detail.(*errdetails.BadRequest)
		if !ok {
			continue
		}
		for _, one := range bad.GetFieldViolations() {
			f.Violations = append(f.Violations, violation{one.GetField(), one.GetDescription()})
		}
	}
	if len(f.Violations) > 0 {
		f.Message = "" // it repeats them
	}
	return f
}

// Of are the problems of one field.
func (f *failure) Of(field string) string {
	if f == nil {
		return ""
	}
	for _, one := range f.Violations {
		if one.Field == field {
			return one.Problem
		}
	}
	return ""
}

func failurePage(err error) page {
	f := failureOf(err)
	return page{name: "failure", title: f.Title, view: f, code: f.code}
}

func showNothing(v *visit) (page, error) {
	return page{}, status.Errorf(codes.NotFound, "there is no page %.100q", v.URL.Path)
}

// part is a part of a page that may fail separately: a viewer who may not see the workers still
// sees the runs.
type part[T any] struct {
	Is    T
	Fails *failure
}

func partOf[T any](value T, err error) part[T] {
	if err != nil {
		f := failureOf(err)
		return part[T]{Fails: &f}
	}
	return part[T]{Is: value}
}
