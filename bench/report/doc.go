// Package report formats a result for people: as the text block that vLLM's tool prints, or as an
// HTML page.
//
// The page is a template with an embedded style sheet, a script and uPlot. The page's content
// security policy forbids loading anything. The script only draws lines and axes; plots.go
// determines their meaning. Tables are HTML, so the page is readable even if the script does not
// run. Text from a server or from a foreign file can neither control a terminal nor become script.
// The text block passes through proxy/front/plaintext, and the page through html/template.
package report
