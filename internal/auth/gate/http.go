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

// Door identifies the callers of the REST side before anything of what they
// sent is read. What they may do is decided where the call arrives.
func (g *Gate) Door(next http.Handler) http.Handler {
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

// isReport tells where a run's own token may be good: anything of its form is
// let through to there, so the bodies of all other calls stay unread.
func isReport(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, ":report")
}

// Only lets in what has one of the roles, or shows the token if there is one:
// for pages that are no calls, such as metrics.
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

// IdentifyHTTP is who makes an HTTP request.
func (g *Gate) IdentifyHTTP(r *http.Request) (auth.Identity, error) {
	return g.Identify(r.Context(), credentialsOf(r))
}

func credentialsOf(r *http.Request) Credentials {
	return Credentials{Authorization: r.Header.Values("Authorization"), TLS: r.TLS}
}

// showsToken compares hashes: the time of it tells nothing, not even a length.
func showsToken(r *http.Request, want string) bool {
	all := r.Header.Values("Authorization")
	if len(all) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(all[0], " ")
	got, expected := sha256.Sum256([]byte(strings.TrimSpace(token))), sha256.Sum256([]byte(want))
	return strings.EqualFold(scheme, "bearer") && subtle.ConstantTimeCompare(got[:], expected[:]) == 1
}

// refuse answers as the REST side does: a google.rpc.Status.
func (g *Gate) refuse(w http.ResponseWriter, r *http.Request, id auth.Identity, status int, code codes.Code, message string) {
	g.o.Refused(r, id, code)
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="carillon"`)
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct { // the client is gone; nothing to do
		Code    codes.Code `json:"code"`
		Message string     `json:"message"`
		Details []struct{} `json:"details"`
	}{code, message, []struct{}{}})
}
