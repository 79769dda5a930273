package cert

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
)

// nameOf returns the URI of a valid client certificate.
func nameOf(leaf *x509.Certificate) (string, error) {
	switch {
	case leaf.IsCA:
		return "", errors.New("the client certificate is a CA certificate")
	case !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth):
		return "", errors.New("the client certificate is not made for clients (extended key usage clientAuth)")
	case len(leaf.URIs) != 1:
		return "", fmt.Errorf("the client certificate has %d URIs as names, not 1", len(leaf.URIs))
	}
	if public, ok := leaf.PublicKey.(*rsa.PublicKey); ok && public.N.BitLen() < minRSABits {
		return "", fmt.Errorf("the client certificate's key has %d bits, less than %d", public.N.BitLen(), minRSABits)
	}
	uri, err := rawURI(leaf)
	if err != nil {
		return "", err
	}
	if !validURI(uri) {
		return "", errors.New("the client certificate's URI is too long or holds what a URI cannot")
	}
	return uri, nil
}

// validURI reports whether s is 1 to 256 printable ASCII characters without
// spaces.
func validURI(s string) bool {
	notInURI := func(r rune) bool { return r <= ' ' || r > '~' }
	return s != "" && len(s) <= auth.MaxSubject && !strings.ContainsFunc(s, notInURI)
}

var subjectAltName = asn1.ObjectIdentifier{2, 5, 29, 17}

// rawURI returns the bytes of the only URI among a certificate's names. Do not use leaf.URIs: parsed
// and printed, SPIFFE://x/worker and spiffe://x/worker# become spiffe://x/worker, another caller.
func rawURI(leaf *x509.Certificate) (string, error) {
	var found []string
	for _, extension := range leaf.Extensions {
		if !extension.Id.Equal(subjectAltName) {
			continue
		}
		var names []asn1.RawValue
		if rest, err := asn1.Unmarshal(extension.Value, &names); err != nil || len(rest) > 0 {
			return "", errors.New("the client certificate's names cannot be read")
		}
		for _, name := range names {
			const uri = 6 // uniformResourceIdentifier of GeneralName, RFC 5280
			if name.Class == asn1.ClassContextSpecific && name.Tag == uri {
				found = append(found, string(name.Bytes))
			}
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("the client certificate has %d URIs as names, not 1", len(found))
	}
	return found[0], nil
}

// Callers are the identities that AUTH_MTLS_ROLES names, by URI.
type Callers map[string][]auth.Role

// ParseCallers reads "URI=role+role,URI=role".
func ParseCallers(text string) (Callers, error) {
	callers := make(Callers)
	for entry := range strings.SplitSeq(text, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		at := strings.LastIndex(entry, "=") // a URI may contain =
		if at < 1 {
			return nil, fmt.Errorf("%s is not URI=role", schedule.Quote(entry))
		}
		name := entry[:at]
		if err := checkName(name); err != nil {
			return nil, fmt.Errorf("%s %w", schedule.Quote(name), err)
		}
		if _, twice := callers[name]; twice {
			return nil, fmt.Errorf("%s is there twice; join its roles with +", schedule.Quote(name))
		}
		for word := range strings.SplitSeq(entry[at+1:], "+") {
			role := auth.Role(strings.TrimSpace(word))
			if role.OfOwner() {
				return nil, fmt.Errorf("%s: the role %s needs an owner, which a certificate has not; use a token", schedule.Quote(name), role)
			}
			if !slices.Contains(auth.Roles, role) {
				return nil, fmt.Errorf("%s: %s is not a role", schedule.Quote(name), schedule.Quote(word))
			}
			callers[name] = append(callers[name], role)
		}
	}
	return callers, nil
}

// spiffeID is a SPIFFE ID as the standard allows it: no port, user, query,
// fragment, escape, empty segment or slash at the end.
var spiffeID = regexp.MustCompile(`^spiffe://[a-z0-9._-]+(/[A-Za-z0-9._-]+)*$`)

// checkName refuses names that a correct certificate cannot have. Names are compared byte by byte, so
// such an entry would admit no caller, or an unexpected one.
func checkName(name string) error {
	u, err := url.Parse(name)
	switch {
	case err != nil || u.Scheme == "" || u.Host == "" && u.Opaque == "" || !validURI(name):
		return errors.New("is not a URI such as spiffe://example.org/worker")
	case strings.EqualFold(u.Scheme, "spiffe") && !spiffeID.MatchString(name):
		return errors.New("is not a SPIFFE ID: scheme and trust domain are lower case, path segments hold A-Z a-z 0-9 . _ -, and no slash ends it, such as spiffe://example.org/worker")
	case slices.ContainsFunc(strings.Split(u.Path, "/"), func(segment string) bool { return segment == "." || segment == ".." }):
		return errors.New("has . or .. in its path")
	case u.String() != name || u.Host != strings.ToLower(u.Host) || u.User != nil || u.Fragment != "":
		return errors.New("is not in its plain form: scheme and host in lower case, no user, no fragment")
	}
	return nil
}
