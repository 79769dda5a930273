package safehttp_test

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/safehttp"
)

func TestOrdinaryAddressesPass(t *testing.T) {
	for _, address := range []string{
		"https://example.com/", "http://example.com:80/x?y=z", "https://xn--bcher-kva.example/", "https://a_b.example.com./", "https://1.1.1.1/", "https://8.8.8.8:443/",
		"https://[2606:4700:4700::1111]/", "https://3com.com/", "https://0x.org/", "https://172.15.255.255/", "https://172.32.0.1/", "https://100.128.0.1/", "https://11.0.0.1/",
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if err := policy(t, "").CheckURL(u); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// notPublic is another view of the same question, by the standard library.
func notPublic(ip netip.Addr) bool {
	ip = ip.Unmap()
	return ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() || !ip.IsGlobalUnicast() || ip.Zone() != ""
}

func TestWhatTheStandardLibraryKnowsAsInnerIsNeverAllowed(t *testing.T) {
	near := rapid.SampledFrom(ips("127.0.0.0", "10.0.0.0", "172.16.0.0", "192.168.0.0", "169.254.169.254", "224.0.0.0", "::1", "fe80::", "fc00::", "ff00::", "0.0.0.0"))
	p := policy(t, "")
	rapid.Check(t, func(t *rapid.T) {
		ip := near.Draw(t, "near")
		raw := ip.AsSlice()
		raw[rapid.IntRange(len(raw)/4, len(raw)-1).Draw(t, "byte")] ^= rapid.Byte().Draw(t, "flip")
		ip, _ = netip.AddrFromSlice(raw)
		if rapid.Bool().Draw(t, "mapped") {
			ip = netip.AddrFrom16(ip.As16())
		}
		err := p.CheckURL(&url.URL{Scheme: "https", Host: netip.AddrPortFrom(ip, 443).String()})
		if notPublic(ip) && err == nil {
			t.Fatalf("%s is allowed", ip)
		}
	})
}

func FuzzCheckURL(f *testing.F) {
	for _, address := range hostile {
		f.Add(strings.ReplaceAll(strings.ReplaceAll(address, "%d", "80"), "%%", "%"))
	}
	p, err := safehttp.ParsePolicy("")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, address string) {
		u, err := url.Parse(address)
		if err != nil || p.CheckURL(u) != nil {
			return
		}
		name := u.Hostname()
		if ip, err := netip.ParseAddr(name); err == nil && notPublic(ip) {
			t.Errorf("%q is allowed", address)
		}
		if strings.ContainsAny(u.Host, "@/\\ \x00") || u.User != nil {
			t.Errorf("%q is allowed", address)
		}
	})
}

func TestAnEntryThatIsNoDestinationIsRefusedInWords(t *testing.T) {
	for _, list := range []string{"10.0.0.0/33", "a b/c", "http://x", "host:port", "127.1", "*.", "x:0", "x:70000", "fe80::1%eth0", "é.com", "[::1"} {
		if _, err := safehttp.ParsePolicy(list); err == nil || !strings.Contains(err.Error(), "is not a") {
			t.Errorf("%q: %v", list, err)
		}
	}
}
