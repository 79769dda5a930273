package signed_test

import (
	"errors"
	"testing"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/auth/authtest"
	"github.com/carillon/carillon/internal/auth/signed"
)

func TestNoForgedTokenIsTaken(t *testing.T) {
	right, tokens := authtest.Forged(noon)
	v := open(t, config(writeJWKS(t, right...)))
	good := right[0].Token(right[0].Header(), claims())
	if _, err := v.Identify(t.Context(), good); err != nil {
		t.Fatal("the token that the others were made of is refused")
	}
	if len(tokens) < 120 {
		t.Errorf("only %d tokens", len(tokens))
	}
	for name, token := range tokens {
		id, err := v.Identify(t.Context(), token)
		if !errors.Is(err, signed.ErrInvalid) {
			t.Errorf("%s: %+v, %v; want ErrInvalid", name, id, err)
		}
		named := ""
		var wrong *auth.ClaimError
		if errors.As(err, &wrong) {
			named = wrong.Claim
		}
		if want := authtest.WrongClaim(name); named != want {
			t.Errorf("%s: %v names claim %q, want %q", name, err, named, want)
		}
		if len(err.Error()) > 400 {
			t.Errorf("%s: a log line of %d bytes", name, len(err.Error()))
		}
	}
}

func FuzzIdentify(f *testing.F) {
	_, tokens := authtest.Forged(noon)
	for _, token := range tokens {
		if len(token) < 2000 {
			f.Add(token)
		}
	}
	var v *signed.Verifier
	f.Fuzz(func(t *testing.T, token string) {
		if v == nil {
			v = open(t, config(writeJWKS(t, newEd25519("other"))))
		}
		if _, err := v.Identify(t.Context(), token); err == nil {
			t.Errorf("%q is taken", token)
		}
	})
}
