// Package console is the operator's face: HTML pages on HTTP_ADDR that show
// what fires next, what is late, why a run did or did not happen, and let it be
// paused, run again, or tried out.
//
// It takes no step in a slot's life. Every page and every button asks the
// services of carillon.v1 over the connection inside the process, as the REST
// side does, with the identity of whoever looks: who may call, whose schedules
// are seen, what is refused, how often one may ask and what stands in the audit
// trail are decided there and nowhere here.
//
// A page is one function in one file: it asks, makes a view (plain values,
// times as moments in the viewer's zone), and a template of the same name
// renders it. Pages work without scripts; with them (htmx, and console.js) parts
// of a page are fetched anew when runs change, actions answer in place, and
// times count down. Nothing is fetched from elsewhere, and the policy of content
// allows no inline script and no inline style: what has a place or a length is
// an SVG attribute.
package console
