package sim

import "time"

// audioProfiles are the engines that hear and speak. whisper.cpp's server was measured, the others
// were read in their sources.
var audioProfiles = []profile{
	{
		name:  "whisper",
		plays: "whisper.cpp's server: /inference alone, one at a time, errors in plain text, text served as HTML, no list of models",
		work:  "inference", slots: 1, server: "whisper.cpp", headers: whisperHeaders,
		jsonType: "application/json", textType: "text/plain", unknown: unknownEcho, idle: 5 * time.Second, perConn: 100,
	},
	{
		name:  "speaches",
		plays: "speaches (faster-whisper): FastAPI's errors, streams of segments without an end mark, speech too",
		work:  "transcriptions translations speech", models: []string{"Systran/faster-whisper-small"}, slots: 2, server: "uvicorn", dated: true, lower: true,
		jsonType: "application/json", sseType: "text/event-stream; charset=utf-8", textType: "text/plain; charset=utf-8",
		loads: true, auth: "all", idle: 5 * time.Second, page404: `{"detail":"Not Found"}`,
	},
	{
		name:  "kokoro",
		plays: "Kokoro-FastAPI: speech alone, mp3 and streamed unless asked otherwise, refuses unknown voices, FastAPI's errors",
		work:  "speech", models: []string{
			"tts-1", "tts-1-hd",
			"kokoro",
		}, slots: 2, server: "uvicorn", dated: true, lower: true,
		jsonType: "application/json", sseType: "text/event-stream; charset=utf-8", textType: "text/plain; charset=utf-8",
		idle: 5 * time.Second, page404: `{"detail":"Not Found"}`,
	},
}

// audioVariants are engines of audioProfiles in another mode.
var audioVariants = []variant{
	{
		"whisper-openai", "whisper",
		"whisper.cpp's server started with --inference-path /v1/audio/transcriptions: that path alone", func(p *profile) { p.work = "transcriptions" },
	},
}

const whisperHeaders = "Access-Control-Allow-Origin: *\r\nAccess-Control-Allow-Headers: content-type, authorization\r\n"
