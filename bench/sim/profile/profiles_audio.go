package profile

import "time"

// audioProfiles are the engines that hear and speak. whisper.cpp's server was measured, the others
// were read in their sources.
var audioProfiles = []Profile{
	{
		Name:  "whisper",
		Plays: "whisper.cpp's server: /inference alone, one at a time, errors in plain text, text served as HTML, no list of models",
		work:  "inference", Slots: 1, Server: "whisper.cpp", Headers: whisperHeaders,
		JSONType: "application/json", TextType: "text/plain", Unknown: UnknownEcho, Idle: 5 * time.Second,
		PerConn: 100,
	},
	{
		Name:  "speaches",
		Plays: "speaches (faster-whisper): FastAPI's errors, streams of segments without an end mark, speech too",
		work:  "transcriptions translations speech", Models: []string{"Systran/faster-whisper-small"}, Slots: 2,
		Server: "uvicorn", Dated: true, Lower: true,
		JSONType: "application/json", SSEType: "text/event-stream; charset=utf-8",
		TextType: "text/plain; charset=utf-8",
		Loads:    true, Auth: "all", Idle: 5 * time.Second, Page404: `{"detail":"Not Found"}`,
	},
	{
		Name:  "kokoro",
		Plays: "Kokoro-FastAPI: speech alone, mp3 and streamed unless asked otherwise, refuses unknown voices, FastAPI's errors",
		work:  "speech", Models: []string{
			"tts-1", "tts-1-hd",
			"kokoro",
		}, Slots: 2, Server: "uvicorn", Dated: true, Lower: true,
		JSONType: "application/json", SSEType: "text/event-stream; charset=utf-8",
		TextType: "text/plain; charset=utf-8",
		Idle:     5 * time.Second, Page404: `{"detail":"Not Found"}`,
	},
}

// audioVariants are engines of audioProfiles in another mode.
var audioVariants = []variant{
	{
		"whisper-openai", "whisper",
		"whisper.cpp's server started with --inference-path /v1/audio/transcriptions: that path alone",
		func(p *Profile) { p.work = "transcriptions" },
	},
}

const whisperHeaders = "Access-Control-Allow-Origin: *\r\nAccess-Control-Allow-Headers: content-type, authorization\r\n"
