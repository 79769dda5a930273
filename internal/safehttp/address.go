package safehttp

import (
	"net"
	"net/netip"
)

// special lists blocks outside the public internet, from the IANA special-purpose registries. In IPv6
// only 2000::/3 is public, so only its exceptions are listed. The first match counts.
var special = []struct {
	block netip.Prefix
	kind  string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "an unspecified"},
	{netip.MustParsePrefix("10.0.0.0/8"), "a private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "a carrier's inner"},
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local"},
	{netip.MustParsePrefix("172.16.0.0/12"), "a private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "a reserved"},
	{netip.MustParsePrefix("192.0.2.0/24"), "a documentation"},
	{netip.MustParsePrefix("192.31.196.0/24"), "a reserved"},
	{netip.MustParsePrefix("192.52.193.0/24"), "a reserved"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a reserved"},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private"},
	{netip.MustParsePrefix("192.175.48.0/24"), "a reserved"},
	{netip.MustParsePrefix("198.18.0.0/15"), "a benchmarking"},
	{netip.MustParsePrefix("198.51.100.0/24"), "a documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "a documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved"},
	{netip.MustParsePrefix("::/128"), "an unspecified"},
	{netip.MustParsePrefix("::1/128"), "a loopback"},
	{netip.MustParsePrefix("64:ff9b::/96"), "a translated"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "a translated"},
	{netip.MustParsePrefix("fc00::/7"), "a private"},
	{netip.MustParsePrefix("fe80::/10"), "a link-local"},
	{netip.MustParsePrefix("ff00::/8"), "a multicast"},
	{netip.MustParsePrefix("2001::/23"), "a tunnelled or reserved"}, // Teredo, ORCHID and others
	{netip.MustParsePrefix("2001:db8::/32"), "a documentation"},
	{netip.MustParsePrefix("2002::/16"), "a tunnelled"}, // 6to4 names an IPv4 address
	{netip.MustParsePrefix("2620:4f:8000::/48"), "a reserved"},
	{netip.MustParsePrefix("3fff::/20"), "a documentation"},
}

var publicIPv6 = netip.MustParsePrefix("2000::/3")

// plain converts IPv4-mapped IPv6 addresses to IPv4.
func plain(ip netip.Addr) netip.Addr { return ip.Unmap() }

// kindOf describes an address that is not public.
func kindOf(ip netip.Addr) (kind string, public bool) {
	ip = plain(ip)
	if !ip.IsValid() {
		return "no", false
	}
	if ip.Zone() != "" {
		return "a link-local", false
	}
	for _, s := range special {
		if s.block.Contains(ip) {
			return s.kind, false
		}
	}
	if ip.Is6() && !publicIPv6.Contains(ip) {
		return "a reserved", false
	}
	return "", true
}

// ownAddresses are the addresses of this machine, including public ones: its own services listen there.
func ownAddresses() []netip.Addr {
	assigned, err := net.InterfaceAddrs()
	if err != nil {
		return nil // private and loopback addresses are refused anyway
	}
	own := make([]netip.Addr, 0, len(assigned))
	for _, a := range assigned {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				own = append(own, plain(ip))
			}
		}
	}
	return own
}
