// Package console serves the HTML pages on HTTP_ADDR. They show what fires next, what
// is late, and why a run did or did not happen. Schedules can be paused, triggered,
// edited and simulated.
//
// Pages and actions call the services of carillon.v1 over the connection inside the
// process, like REST, with the identity of the visitor. Permissions, visible owners,
// validation, rate limits and the audit trail are decided there, not here.
//
// A page is one function in one file. It calls the API, makes a view (plain values,
// times as moments in the viewer's zone), and a template of the same name renders it.
// Pages work without scripts. With htmx and console.js, parts of a page are fetched
// again when runs change, actions answer in place, and times count down. Nothing is
// fetched from other sites. The Content-Security-Policy forbids inline scripts and
// inline styles: positions and lengths are SVG attributes.
package console
