package connlimit

import (
	"net"
	"net/netip"
)

// PeerOf is the key under which the limits of one peer are counted: an IPv4
// address, or the first 64 bits of an IPv6 address, which is what one customer
// of a network commonly has. It is empty for an address that is neither.
func PeerOf(address net.Addr) string {
	if address == nil {
		return ""
	}
	return PeerOfText(address.String())
}

// PeerOfText is PeerOf for host:port, such as http.Request.RemoteAddr.
func PeerOfText(address string) string {
	port, err := netip.ParseAddrPort(address)
	if err != nil {
		return ""
	}
	ip := port.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	network, err := ip.Prefix(64)
	if err != nil {
		return ""
	}
	return network.String()
}
