package console

import "html/template"

// icons are lines on a square of 24 units, drawn for this console.
var icons = map[string]string{
	"bell":      `<path d="M12 3.5v1.6M6.5 16.5c1-1.2 1.4-2.8 1.4-5a4.1 4.1 0 0 1 8.2 0c0 2.2.4 3.8 1.4 5z"/><path d="M10 19.2a2.1 2.1 0 0 0 4 0"/>`,
	"overview":  `<path d="M4 13.5a8 8 0 1 1 16 0"/><path d="M12 13.5l3.6-3.9M4.5 18h15"/>`,
	"schedules": `<path d="M5 6.5h14v13H5zM5 10.5h14M9 4v4M15 4v4"/>`,
	"runs":      `<path d="M4.5 7h10M4.5 12h15M4.5 17h7"/><circle cx="18" cy="7" r="1.6"/><circle cx="15" cy="17" r="1.6"/>`,
	"queues":    `<path d="M4.5 8h3v8h-3zM10.5 8h3v8h-3zM16.5 12h4M18.5 10l2 2-2 2"/>`,
	"preview":   `<path d="M3.5 12S6.6 6.5 12 6.5 20.5 12 20.5 12 17.4 17.5 12 17.5 3.5 12 3.5 12z"/><circle cx="12" cy="12" r="2.4"/>`,
	"alerts":    `<path d="M12 4.5l8.5 14.5h-17zM12 10v4M12 16.6h.01"/>`,
	"simulate":  `<path d="M9.5 4.5h5M10.5 4.5v5l-5 8.2c-.5.9.1 1.8 1.1 1.8h10.8c1 0 1.6-.9 1.1-1.8l-5-8.2v-5M8 14.5h8"/>`,
	"hand":      `<path d="M12 12.5a3.6 3.6 0 1 0 0-7.2 3.6 3.6 0 0 0 0 7.2zM5 19.5c.8-3 3.5-4.6 7-4.6s6.2 1.6 7 4.6"/>`,
	"timeline":  `<path d="M4 5v14.5h16M8 15v-3M11.5 15V8M15 15v-5M18.5 15v-2"/>`,
	"workers":   `<path d="M5 5.5h14v5.4H5zM5 13.1h14v5.4H5zM8 8.2h.01M8 15.8h.01"/>`,
	"pause":     `<path d="M9 6.5v11M15 6.5v11"/>`,
	"play":      `<path d="M8.5 6.5v11l8.5-5.5z"/>`,
	"bolt":      `<path d="M12.8 3.8L6.5 13.4h5l-.4 6.8 6.4-9.7h-5z"/>`,
	"again":     `<path d="M19 12a7 7 0 1 1-2.1-5M19 4.5V9h-4.5"/>`,
	"stop":      `<path d="M7 7h10v10H7z"/>`,
	"theme":     `<circle cx="12" cy="12" r="7.5"/><path d="M12 4.5v15a7.5 7.5 0 0 0 0-15z" class="solid"/>`,
	"menu":      `<path d="M4.5 7.5h15M4.5 12h15M4.5 16.5h15"/>`,
	"out":       `<path d="M10 5H5.5v14H10M14 8.5l3.5 3.5-3.5 3.5M17 12H9.5"/>`,
	"search":    `<circle cx="11" cy="11" r="5.5"/><path d="M15.2 15.2L19.5 19.5"/>`,
	"close":     `<path d="M7 7l10 10M17 7L7 17"/>`,
	"why":       `<circle cx="12" cy="12" r="8"/><path d="M9.8 9.6a2.3 2.3 0 1 1 3.2 2.2c-.7.4-1 .8-1 1.7M12 16.4h.01"/>`,
	"backfill":  `<path d="M4.5 12a7.5 7.5 0 1 0 2.2-5.3M4.5 4.5v4H8.5M12 8v4.4l2.8 1.7"/>`,
	"history":   `<path d="M7 5h10M7 12h10M7 19h10"/><circle cx="4.5" cy="5" r=".6"/><circle cx="4.5" cy="12" r=".6"/><circle cx="4.5" cy="19" r=".6"/>`,
}

// icon is decoration: the text next to it has the meaning.
func icon(name string) template.HTML {
	return template.HTML(`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">` + icons[name] + `</svg>`)
}
