package gate

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/carillon/carillon/internal/auth"
)

// Authenticate identifies the callers of REST before their body is read. The service decides what they
// may do.
func (g *Gate) Authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := g.IdentifyHTTP(r)
		if err == nil && id.Via == auth.ViaReport && !isReport(r) {
			err = ErrUnauthenticated
		}
		if err != nil {
			g.refuse(w, r, id, http.StatusUnauthorized, codes.Unauthenticated, err.Error())
			return
		}
		ctx := WithCredentials(auth.NewContext(r.Context(), id), credentialsOf(r))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// isReport reports whether the route may accept a report token. Any token of that format passes there
// unchecked, so other routes must refuse it before they read the body.
func isReport(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, ":report")
}

// Only admits callers with one of the roles, or with the token if it is set. It is for pages outside
// the API, such as metrics.
func (g *Gate) Only(next http.Handler, token string, roles ...auth.Role) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token != "" && showsToken(r, token) {
			next.ServeHTTP(w, r)
			return
		}
		id, err := g.IdentifyHTTP(r)
		switch {
		case err == nil && id.Via == auth.ViaOpen && token == "":
		case err != nil:
			g.refuse(w, r, id, http.StatusUnauthorized, codes.Unauthenticated, err.Error())
			return
		case id.Via == auth.ViaReport || id.Via == auth.ViaOpen:
			g.refuse(w, r, id, http.StatusUnauthorized, codes.Unauthenticated, ErrUnauthenticated.Error())
			return
		case !slices.ContainsFunc(roles, id.Has):
			g.refuse(w, r, id, http.StatusForbidden, codes.PermissionDenied, "this page is for the roles "+auth.Rule{Roles: roles}.Names())
			return
		}
		next.ServeHTTP(w, r)
	})
}

// IdentifyHTTP identifies the caller of an HTTP request.
func (g *Gate) IdentifyHTTP(r *http.Request) (auth.Identity, error) {
	return g.Identify(r.Context(), credentialsOf(r))
}

func credentialsOf(r *http.Request) Credentials {
	return Credentials{Authorization: r.Header.Values("Authorization"), TLS: r.TLS}
}

// showsToken compares hashes, so that its duration reveals nothing, not even the length.
func showsToken(r *http.Request, want string) bool {
	all := r.Header.Values("Authorization")
	if len(all) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(all[0], " ")
	got, expected := sha256.Sum256([]byte(strings.TrimSpace(token))), sha256.Sum256([]byte(want))
	return strings.EqualFold(scheme, "bearer") && subtle.ConstantTimeCompare(got[:], expected[:]) == 1
}

// refuse answers like REST, with a google.rpc.Status.
func (g *Gate) refuse(w http.ResponseWriter, r *http.Request, id auth.Identity, status int, code codes.Code, message string) {
	g.o.Refused(r, id, code)
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="carillon"`)
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct { // an error means that the client has disconnected
		Code    codes.Code `json:"code"`
		Message string     `json:"message"`
		Details []struct{} `json:"details"`
	}{code, message, []struct{}{}})
}
