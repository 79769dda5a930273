package safehttp

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Policy lists allowed destinations outside the public internet. The zero value has none.
type Policy struct {
	blocks []block
	hosts  []host
	own    func() []netip.Addr // nil: ask the system
}

type block struct {
	prefix netip.Prefix
	port   uint16 // 0: any
}

type host struct {
	name string // "example.com"; ".example.com" means its subdomains
	port uint16 // 0: any
}

// words name several blocks.
var words = map[string][]netip.Prefix{
	"loopback": {netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
	"private": {
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"),
		netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("fc00::/7"),
	},
}

const entryHint = "write loopback, private, an address, a CIDR block, a host name or *.example.com, each also with :port"

// ParsePolicy reads ALLOW_EGRESS: entries between commas or spaces.
func ParsePolicy(list string) (Policy, error) {
	var p Policy
	for _, entry := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' }) {
		if err := p.add(strings.ToLower(entry)); err != nil {
			return Policy{}, err
		}
	}
	return p, nil
}

func (p *Policy) add(entry string) error {
	name, port, err := cutPort(entry)
	if err != nil {
		return err
	}
	if prefixes, ok := words[name]; ok {
		for _, prefix := range prefixes {
			p.blocks = append(p.blocks, block{prefix, port})
		}
		return nil
	}
	if prefix, err := netip.ParsePrefix(name); err == nil {
		p.blocks = append(p.blocks, block{prefix.Masked(), port})
		return nil
	}
	if ip, err := netip.ParseAddr(name); err == nil && ip.Zone() == "" {
		ip = plain(ip)
		p.blocks = append(p.blocks, block{netip.PrefixFrom(ip, ip.BitLen()), port})
		return nil
	}
	bare, below := strings.CutPrefix(name, "*.")
	if checkHost(bare) != "" {
		return fmt.Errorf("%q is not a destination; %s", entry, entryHint)
	}
	if below {
		bare = "." + bare
	}
	p.hosts = append(p.hosts, host{bare, port})
	return nil
}

// cutPort splits the port off an entry. IPv6 addresses with a port need brackets.
func cutPort(entry string) (name string, port uint16, err error) {
	if strings.HasPrefix(entry, "[") && strings.HasSuffix(entry, "]") {
		return strings.Trim(entry, "[]"), 0, nil
	}
	if strings.Count(entry, ":") != 1 && !strings.HasPrefix(entry, "[") {
		return entry, 0, nil
	}
	name, text, err := net.SplitHostPort(entry)
	if err != nil {
		return "", 0, fmt.Errorf("%q is not a destination; %s", entry, entryHint)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("%q: %q is not a port", entry, text)
	}
	return name, uint16(n), nil
}

// trusts reports whether the operator listed the host by name: then all its addresses are allowed.
func (p Policy) trusts(name string, port uint16) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return slices.ContainsFunc(p.hosts, func(h host) bool {
		matches := h.name == name || strings.HasPrefix(h.name, ".") && strings.HasSuffix(name, h.name)
		return matches && (h.port == 0 || h.port == port)
	})
}

// checkAddress checks the address of a new connection.
func (p Policy) checkAddress(at netip.AddrPort) error {
	ip := plain(at.Addr())
	if ip.Zone() == "" && slices.ContainsFunc(p.blocks, func(b block) bool {
		return b.prefix.Contains(ip) && (b.port == 0 || b.port == at.Port())
	}) {
		return nil
	}
	if kind, public := kindOf(at.Addr()); !public {
		return refuse("resolves to %s address", kind)
	}
	own := p.own
	if own == nil {
		own = ownAddresses
	}
	if slices.Contains(own(), ip) {
		return refuse("resolves to an address of this machine")
	}
	if at.Port() != 80 && at.Port() != 443 {
		return refuse("uses port %d; only 80 and 443 are allowed by default", at.Port())
	}
	return nil
}
