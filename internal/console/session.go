package console

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/auth/gate"
)

// sessionCookie holds the pasted token. Scripts cannot read it, and it is sent only with requests
// from this site's pages. It is valid for pages, not for REST, which needs Authorization.
const sessionCookie = "carillon_session"

// maxToken fits into a cookie: browsers silently drop one of more than 4096 bytes.
const maxToken = 3800

// identify identifies the visitor by Authorization, which a proxy may add, by the
// session's cookie, or by the client's certificate.
func (c *Console) identify(r *http.Request) (auth.Identity, error) {
	id, err := c.o.Identifier.Identify(r.Context(), shownIn(r))
	if err == nil && id.Via == auth.ViaReport { // valid for reports only
		return auth.Identity{}, gate.ErrUnauthenticated
	}
	return id, err
}

// shownIn are the credentials of the request.
func shownIn(r *http.Request) gate.Credentials {
	shown := gate.Credentials{Authorization: r.Header.Values("Authorization"), TLS: r.TLS}
	if cookie, err := r.Cookie(sessionCookie); err == nil && len(shown.Authorization) == 0 {
		shown.Authorization = []string{"Bearer " + cookie.Value}
	}
	return shown
}

// admit identifies the visitor, or shows the page to sign in.
func (c *Console) admit(w http.ResponseWriter, r *http.Request) (*visit, bool) {
	id, err := c.identify(r)
	if err != nil {
		c.askToSignIn(w, r)
		return nil, false
	}
	return c.newVisit(r, id), true
}

// askToSignIn leads to the page where a token is pasted. A link on another
// site brings no cookie along (SameSite=Strict): such a visit comes again from
// here, and then has it.
func (c *Console) askToSignIn(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Site") == "cross-site":
		c.render(w, c.newVisit(r, auth.Identity{}), page{name: "again", title: "Carillon", view: ownPath(r.URL.RequestURI())})
	case r.Method == http.MethodGet && r.Header.Get("HX-Request") == "":
		http.Redirect(w, r, Prefix+"signin?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
	default:
		c.answerToast(w, c.newVisit(r, auth.Identity{}), failedToast(status.Error(codes.Unauthenticated, "your token has expired; reload the page to sign in")))
	}
}

// signInView is the sign-in page.
type signInView struct {
	Next    string
	Problem string
}

func (c *Console) showSignIn(w http.ResponseWriter, r *http.Request) {
	view := signInView{Next: ownPath(r.URL.Query().Get("next"))}
	if _, err := c.identify(r); err == nil {
		http.Redirect(w, r, view.Next, http.StatusSeeOther)
		return
	}
	// A browser drops the cookie when the token expires; an open page reports that.
	if _, err := r.Cookie(sessionCookie); err == nil || r.URL.Query().Get("ended") != "" {
		view.Problem = "Your token has expired or was revoked."
	}
	c.render(w, c.newVisit(r, auth.Identity{}), page{name: "signin", title: "Sign in", view: view})
}

func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	token := strings.TrimPrefix(strings.TrimSpace(r.FormValue("token")), "Bearer ")
	token = strings.Join(strings.Fields(token), "") // none has spaces; a terminal wraps a long one
	view := signInView{Next: ownPath(r.FormValue("next"))}
	id, err := c.o.Identifier.Identify(r.Context(), gate.Credentials{Authorization: []string{"Bearer " + token}})
	switch {
	case len(token) > maxToken:
		view.Problem = "The token is too long for a browser's cookie; ask for one with fewer claims."
	case err != nil || id.Via == auth.ViaReport || strings.ContainsAny(token, ";,\"\\"):
		view.Problem = "Token not accepted: it is unknown, has expired, or is for another service."
		if wrong := (*auth.ClaimError)(nil); errors.As(err, &wrong) {
			view.Problem = "Token not accepted: " + wrong.Error() + "."
		}
	default:
		http.SetCookie(w, c.session(r, token, id))
		http.Redirect(w, r, view.Next, http.StatusSeeOther)
		return
	}
	c.render(w, c.newVisit(r, auth.Identity{}), page{name: "signin", title: "Sign in", view: view, code: http.StatusUnauthorized})
}

// session is the cookie; it ends with the browser, or with the token.
func (c *Console) session(r *http.Request, token string, id auth.Identity) *http.Cookie {
	return &http.Cookie{
		Name: sessionCookie, Value: token, Path: "/", Expires: id.Expires,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: c.o.Secure || r.TLS != nil,
	}
}

func (c *Console) signOut(w http.ResponseWriter, r *http.Request) {
	gone := c.session(r, "", auth.Identity{})
	gone.MaxAge = -1
	http.SetCookie(w, gone)
	http.Redirect(w, r, Prefix+"signin", http.StatusSeeOther)
}

// ownPath is a path of this console, else the first page: an address in a link
// must not lead a signed-in user elsewhere.
func ownPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(u.Path, Prefix) || strings.HasPrefix(u.Path, Prefix+"sign") {
		return "/"
	}
	return u.RequestURI()
}
