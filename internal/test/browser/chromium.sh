#!/bin/sh
# Installs Debian's Chromium where none is and apt-get may be used without
# asking. Where it may not, the tests skip, or fail where REQUIRE_SERVICES=1.
for name in chromium chromium-browser google-chrome google-chrome-stable; do
	command -v "$name" >/dev/null && exit 0
done
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
	echo "console: installing chromium (once per machine)" >&2
	export DEBIAN_FRONTEND=noninteractive
	apt-get -qq -o DPkg::Lock::Timeout=300 update &&
		apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends chromium fonts-dejavu-core >/dev/null && exit 0
fi
echo "console: no Chromium here; the browser tests will say so" >&2
