// Before anything is drawn: the server writes times in the viewer's zone, which
// it knows by a cookie. The first visit, and one from another zone, comes again.
(() => {
  "use strict";
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const wanted = "carillon_zone=" + encodeURIComponent(zone);
  const there = () => document.cookie.split("; ").includes(wanted);
  if (there()) return;
  document.cookie = wanted + "; path=/; max-age=31536000; samesite=strict";
  if (there() && document.documentElement.dataset.zone !== zone) location.reload();
})();
