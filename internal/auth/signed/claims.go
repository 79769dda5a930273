package signed

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
)

// invalid refuses a token for one claim. The token is signed by a trusted key.
func invalid(claim string, value any, problem string) error {
	e := &auth.ClaimError{Claim: claim, Problem: problem}
	if value == nil {
		e.Problem = "is missing; it " + problem
	} else {
		e.Value = schedule.Quote(fmt.Sprint(value))
	}
	return fmt.Errorf("%w: %w", ErrInvalid, e)
}

// refuse returns an error that names the first invalid claim.
func (v *Verifier) refuse(claims jwt.MapClaims) error {
	if issuer, _ := claims["iss"].(string); issuer != v.cfg.Issuer {
		return invalid("iss", claims["iss"], "is not the trusted issuer")
	}
	if audience, err := claims.GetAudience(); err != nil || !slices.Contains(audience, v.cfg.Audience) {
		return invalid("aud", claims["aud"], "does not name this service")
	}
	if err := v.checkTimes(claims); err != nil {
		return err
	}
	now := v.cfg.Now()
	for _, at := range []struct {
		claim   string
		wrong   func(time.Time) bool
		problem string
	}{
		{"exp", func(t time.Time) bool { return !now.Before(t.Add(Leeway)) }, "has passed: the token has expired"},
		{"nbf", func(t time.Time) bool { return now.Add(Leeway).Before(t) }, "is still to come: the token is not valid yet"},
		{"iat", func(t time.Time) bool { return now.Add(Leeway).Before(t) }, "is still to come: check the clocks"},
	} {
		if t, known, _ := instant(claims, at.claim); known && at.wrong(t) {
			return invalid(at.claim, claims[at.claim], at.problem)
		}
	}
	return ErrInvalid
}

// checkTimes checks what the parser does not: times are whole seconds, and the lifetime is at most
// MaxLifetime.
func (v *Verifier) checkTimes(claims jwt.MapClaims) error {
	at := map[string]time.Time{}
	for _, name := range []string{"exp", "iat", "nbf"} {
		t, known, ok := instant(claims, name)
		if !ok {
			return invalid(name, claims[name], "is not a number of whole seconds")
		}
		if known {
			at[name] = t
		}
	}
	exp, ok := at["exp"]
	iat, hasIat := at["iat"]
	switch {
	case !ok:
		return invalid("exp", nil, "is required")
	case exp.Sub(v.cfg.Now()) > v.cfg.MaxLifetime+Leeway, hasIat && exp.Sub(iat) > v.cfg.MaxLifetime:
		return invalid("exp", claims["exp"], "is too late: the longest lifetime is "+v.cfg.MaxLifetime.String()+" at most")
	}
	return nil
}

// instant reads a claim that is a time; !ok: it is not a time.
func instant(claims jwt.MapClaims, name string) (at time.Time, known, ok bool) {
	raw, known := claims[name]
	if !known {
		return at, false, true
	}
	number, isNumber := raw.(json.Number)
	seconds, err := strconv.ParseInt(number.String(), 10, 64)
	if !isNumber || err != nil || seconds < 0 || seconds > schedule.MaxTime.Unix() {
		return at, true, false
	}
	return time.Unix(seconds, 0), true, true
}
