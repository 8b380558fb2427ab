<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="de">
<context>
    <name></name>
    <message>
        <source>Waymark is already running; its window was brought to the front.</source>
        <translation>Waymark läuft bereits; das Fenster wurde nach vorn geholt.</translation>
    </message>
    <message>
        <source>Waymark has lost its display and has closed. Your chats are stored.</source>
        <translation>Waymark hat seinen Bildschirm verloren und wurde beendet. Ihre Chats sind gespeichert.</translation>
    </message>
    <message>
        <source>Sending</source>
        <translation>Senden</translation>
    </message>
    <message>
        <source>Continuing a reply</source>
        <translation>Fortsetzen einer Antwort</translation>
    </message>
    <message>
        <source>Editing a reply</source>
        <translation>Bearbeiten einer Antwort</translation>
    </message>
    <message>
        <source>Sending again</source>
        <translation>Erneutes Senden</translation>
    </message>
    <message>
        <source>Deleting a message</source>
        <translation>Löschen einer Nachricht</translation>
    </message>
    <message>
        <source>Inserting messages</source>
        <translation>Einfügen von Nachrichten</translation>
    </message>
    <message>
        <source>Moving messages</source>
        <translation>Verschieben von Nachrichten</translation>
    </message>
    <message>
        <source>Copying a message</source>
        <translation>Kopieren einer Nachricht</translation>
    </message>
    <message>
        <source>Showing another version</source>
        <translation>Anzeigen einer anderen Fassung</translation>
    </message>
    <message>
        <source>The message will be sent once its files are ready.</source>
        <translation>Die Nachricht wird gesendet, sobald ihre Dateien bereit sind.</translation>
    </message>
    <message>
        <source>No messages follow another version.</source>
        <translation>Auf keine andere Fassung folgen Nachrichten.</translation>
    </message>
    <message>
        <source>{title}: {message} The message was not sent.</source>
        <translation>{title}: {message} Die Nachricht wurde nicht gesendet.</translation>
    </message>
    <message>
        <source>Writing another reply</source>
        <translation>Schreiben einer neuen Antwort</translation>
    </message>
    <message>
        <source>{title}: {model}. Remove the picture, or load a model that can.</source>
        <translation>{title}: {model}. Entfernen Sie das Bild oder laden Sie ein Modell, das Bilder versteht.</translation>
    </message>
    <message>
        <source>{title}: {model}. Start a new chat, or load a model that can.</source>
        <translation>{title}: {model}. Beginnen Sie einen neuen Chat oder laden Sie ein Modell, das Bilder versteht.</translation>
    </message>
    <message>
        <source>Instructions for the model</source>
        <translation>Anweisungen für das Modell</translation>
    </message>
    <message>
        <source>For example: Answer in short sentences.</source>
        <translation>Zum Beispiel: Antworte in kurzen Sätzen.</translation>
    </message>
    <message>
        <source>Close the instructions; they are used with the next message</source>
        <translation>Anweisungen schließen; sie gelten ab der nächsten Nachricht</translation>
    </message>
    <message>
        <source>Done</source>
        <translation>Fertig</translation>
    </message>
    <message>
        <source>Instructions for this chat</source>
        <translation>Anweisungen für diesen Chat</translation>
    </message>
    <message>
        <source>Read before everything else, starting with your next message.</source>
        <translation>Werden ab Ihrer nächsten Nachricht vor allem anderen gelesen.</translation>
    </message>
    <message>
        <source>If you change them, the whole chat is read again.</source>
        <translation>Wenn Sie sie ändern, wird der ganze Chat neu gelesen.</translation>
    </message>
    <message>
        <source>Replies: one of {count} choices</source>
        <translation>Antworten: eine von {count} Möglichkeiten</translation>
    </message>
    <message>
        <source>Replies: match a regular expression</source>
        <translation>Antworten: nach einem regulären Ausdruck</translation>
    </message>
    <message>
        <source>Replies: follow a grammar</source>
        <translation>Antworten: nach einer Grammatik</translation>
    </message>
    <message>
        <source>Format of the replies</source>
        <translation>Format der Antworten</translation>
    </message>
    <message>
        <source>JSON with a schema…</source>
        <translation>JSON mit Schema…</translation>
    </message>
    <message>
        <source>Free text</source>
        <translation>Freier Text</translation>
    </message>
    <message>
        <source>JSON</source>
        <translation>JSON</translation>
    </message>
    <message>
        <source>One of several choices…</source>
        <translation>Eine von mehreren Möglichkeiten…</translation>
    </message>
    <message>
        <source>Regular expression…</source>
        <translation>Regulärer Ausdruck…</translation>
    </message>
    <message>
        <source>Lark grammar…</source>
        <translation>Lark-Grammatik…</translation>
    </message>
    <message>
        <source>Change the format of the replies</source>
        <translation>Format der Antworten ändern</translation>
    </message>
    <message>
        <source>Switch back to free text</source>
        <translation>Zurück zu freiem Text</translation>
    </message>
    <message>
        <source>Replies: JSON</source>
        <translation>Antworten: JSON</translation>
    </message>
    <message>
        <source>Replies: JSON with a schema</source>
        <translation>Antworten: JSON mit Schema</translation>
    </message>
    <message>
        <source>JSON with a schema</source>
        <translation>JSON mit Schema</translation>
    </message>
    <message>
        <source>JSON Schema for the replies</source>
        <translation>JSON-Schema für die Antworten</translation>
    </message>
    <message>
        <source>Paste or write a JSON Schema</source>
        <translation>JSON-Schema einfügen oder schreiben</translation>
    </message>
    <message>
        <source>One of several choices</source>
        <translation>Eine von mehreren Möglichkeiten</translation>
    </message>
    <message>
        <source>From the next message on, each reply in this chat is exactly one of these lines. Reasoning stays free text.</source>
        <translation>Ab der nächsten Nachricht ist jede Antwort in diesem Chat genau eine dieser Zeilen. Nachdenken bleibt freier Text.</translation>
    </message>
    <message>
        <source>Choices for the replies, one a line</source>
        <translation>Möglichkeiten für die Antworten, eine je Zeile</translation>
    </message>
    <message>
        <source>Write one choice a line</source>
        <translation>Schreiben Sie eine Möglichkeit je Zeile</translation>
    </message>
    <message>
        <source>Use the choices</source>
        <translation>Möglichkeiten verwenden</translation>
    </message>
    <message>
        <source>The choices can be used.</source>
        <translation>Die Möglichkeiten können verwendet werden.</translation>
    </message>
    <message>
        <source>Regular expression</source>
        <translation>Regulärer Ausdruck</translation>
    </message>
    <message>
        <source>From the next message on, each reply in this chat matches this regular expression as a whole. Look-around and back references can&apos;t be used. Reasoning stays free text.</source>
        <translation>Ab der nächsten Nachricht passt jede Antwort in diesem Chat als Ganzes zu diesem regulären Ausdruck. Voraus- und Rückschau und Rückverweise sind nicht möglich. Nachdenken bleibt freier Text.</translation>
    </message>
    <message>
        <source>Regular expression for the replies</source>
        <translation>Regulärer Ausdruck für die Antworten</translation>
    </message>
    <message>
        <source>Paste or write a regular expression</source>
        <translation>Regulären Ausdruck einfügen oder schreiben</translation>
    </message>
    <message>
        <source>Use the expression</source>
        <translation>Ausdruck verwenden</translation>
    </message>
    <message>
        <source>The expression can be used.</source>
        <translation>Der Ausdruck kann verwendet werden.</translation>
    </message>
    <message>
        <source>Lark grammar</source>
        <translation>Lark-Grammatik</translation>
    </message>
    <message>
        <source>From the next message on, replies in this chat follow this grammar, from its rule “start”. Reasoning stays free text.</source>
        <translation>Ab der nächsten Nachricht folgen die Antworten in diesem Chat dieser Grammatik, von ihrer Regel „start“ an. Nachdenken bleibt freier Text.</translation>
    </message>
    <message>
        <source>Lark grammar for the replies</source>
        <translation>Lark-Grammatik für die Antworten</translation>
    </message>
    <message>
        <source>Paste or write a Lark grammar</source>
        <translation>Lark-Grammatik einfügen oder schreiben</translation>
    </message>
    <message>
        <source>Use the grammar</source>
        <translation>Grammatik verwenden</translation>
    </message>
    <message>
        <source>The grammar can be used.</source>
        <translation>Die Grammatik kann verwendet werden.</translation>
    </message>
    <message>
        <source>Insert an example</source>
        <translation>Beispiel einfügen</translation>
    </message>
    <message>
        <source>Asking before the window closes</source>
        <translation>Frage vor dem Schließen des Fensters</translation>
    </message>
    <message>
        <source>Stop and quit</source>
        <translation>Aufhören und beenden</translation>
    </message>
    <message>
        <source>Go on in the tray</source>
        <translation>Im Infobereich weiterarbeiten</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>Abbrechen</translation>
    </message>
    <message>
        <source>Keep the window open</source>
        <translation>Fenster offen lassen</translation>
    </message>
    <message>
        <source>A reply is being written, and a model is being downloaded</source>
        <translation>Eine Antwort wird geschrieben, und ein Modell wird heruntergeladen</translation>
    </message>
    <message>
        <source>A model is being downloaded</source>
        <translation>Ein Modell wird heruntergeladen</translation>
    </message>
    <message>
        <source>A reply is being written</source>
        <translation>Eine Antwort wird geschrieben</translation>
    </message>
    <message>
        <source>This system has no tray, so Waymark can&apos;t go on without its window. What has arrived is kept if you stop: a download can be resumed, and a reply continued.</source>
        <translation>Dieses System hat keinen Infobereich, deshalb kann Waymark nicht ohne sein Fenster weiterarbeiten. Wenn Sie aufhören, bleibt erhalten, was angekommen ist: Ein Download kann fortgesetzt und eine Antwort weitergeschrieben werden.</translation>
    </message>
    <message>
        <source>Waymark can go on without its window; its icon in the tray brings it back. What has arrived is kept if you stop: a download can be resumed, and a reply continued. Your answer is remembered; it can be changed in the settings, under In the background.</source>
        <translation>Waymark kann ohne sein Fenster weiterarbeiten; das Symbol im Infobereich bringt es zurück. Wenn Sie aufhören, bleibt erhalten, was angekommen ist: Ein Download kann fortgesetzt und eine Antwort weitergeschrieben werden. Ihre Antwort wird gemerkt; sie kann in den Einstellungen unter Im Hintergrund geändert werden.</translation>
    </message>
    <message>
        <source>Use the schema</source>
        <translation>Schema verwenden</translation>
    </message>
    <message>
        <source>From the next message on, replies in this chat are JSON that matches this schema. Reasoning stays free text.</source>
        <translation>Ab der nächsten Nachricht sind die Antworten in diesem Chat JSON nach diesem Schema. Nachdenken bleibt freier Text.</translation>
    </message>
    <message>
        <source>Checking…</source>
        <translation>Wird geprüft…</translation>
    </message>
    <message>
        <source>The schema can be used.</source>
        <translation>Das Schema kann verwendet werden.</translation>
    </message>
    <message>
        <source>Add a part of the screen</source>
        <translation>Ausschnitt des Bildschirms hinzufügen</translation>
    </message>
    <message>
        <source>Instructions are in use: show or hide them</source>
        <translation>Anweisungen sind aktiv: ein- oder ausblenden</translation>
    </message>
    <message>
        <source>Settings of this chat</source>
        <translation>Einstellungen dieses Chats</translation>
    </message>
    <message>
        <source>Send this when the reply is complete (Enter)</source>
        <translation>Senden, sobald die Antwort fertig ist (Eingabetaste)</translation>
    </message>
    <message>
        <source>Queue</source>
        <translation>Einreihen</translation>
    </message>
    <message>
        <source>Tokens in the message, counted by the model&apos;s tokenizer, and how many the context has left for the reply</source>
        <translation>Token der Nachricht, vom Tokenizer des Modells gezählt, und wie viele der Kontext für die Antwort übrig hat</translation>
    </message>
    <message>
        <source>The model doesn&apos;t think before it answers. Switch thinking on</source>
        <translation>Das Modell denkt nicht, bevor es antwortet. Denken einschalten</translation>
    </message>
    <message>
        <source>The model thinks before it answers. Switch thinking off</source>
        <translation>Das Modell denkt, bevor es antwortet. Denken ausschalten</translation>
    </message>
    <message>
        <source>Stop</source>
        <translation>Stopp</translation>
    </message>
    <message>
        <source>Send</source>
        <translation>Senden</translation>
    </message>
    <message>
        <source>Stop the reply</source>
        <translation>Antwort anhalten</translation>
    </message>
    <message>
        <source>Send the message</source>
        <translation>Nachricht senden</translation>
    </message>
    <message>
        <source>Stop the reply (Esc)</source>
        <translation>Antwort anhalten (Esc)</translation>
    </message>
    <message>
        <source>Send (Enter)</source>
        <translation>Senden (Eingabetaste)</translation>
    </message>
    <message>
        <source>1 token left</source>
        <translation>1 Token übrig</translation>
    </message>
    <message>
        <source>{left} tokens left</source>
        <translation>{left} Token übrig</translation>
    </message>
    <message>
        <source>1 token · {left} left</source>
        <translation>1 Token · {left} übrig</translation>
    </message>
    <message>
        <source>{tokens} tokens · {left} left</source>
        <translation>{tokens} Token · {left} übrig</translation>
    </message>
    <message>
        <source>1 token more than the context holds</source>
        <translation>1 Token mehr, als in den Kontext passt</translation>
    </message>
    <message>
        <source>{over} tokens more than the context holds</source>
        <translation>{over} Token mehr, als in den Kontext passen</translation>
    </message>
    <message>
        <source>1 token, {over} more than the context has left</source>
        <translation>1 Token, {over} mehr als im Kontext übrig sind</translation>
    </message>
    <message>
        <source>{tokens} tokens, {over} more than the context has left</source>
        <translation>{tokens} Token, {over} mehr als im Kontext übrig sind</translation>
    </message>
    <message>
        <source>Nothing is deleted. To continue, start a new chat from a summary, or leave out the oldest turns, which stay here for you to read.</source>
        <translation>Nichts wird gelöscht. Um weiterzumachen, beginnen Sie einen neuen Chat aus einer Zusammenfassung, oder lassen Sie die ältesten Beiträge weg; sie bleiben hier lesbar.</translation>
    </message>
    <message>
        <source>Nothing is deleted. To continue, start a new chat from a summary.</source>
        <translation>Nichts wird gelöscht. Um weiterzumachen, beginnen Sie einen neuen Chat aus einer Zusammenfassung.</translation>
    </message>
    <message>
        <source>There is no room for the last message in the context of {limit} tokens.</source>
        <translation>Für die letzte Nachricht ist im Kontext von {limit} Token kein Platz.</translation>
    </message>
    <message>
        <source>The context is full ({tokens} of {limit} tokens).</source>
        <translation>Der Kontext ist voll ({tokens} von {limit} Token).</translation>
    </message>
    <message>
        <source>This chat fills {percent} % of the context ({tokens} of {limit} tokens).</source>
        <translation>Dieser Chat füllt {percent} % des Kontexts ({tokens} von {limit} Token).</translation>
    </message>
    <message>
        <source>The last message alone takes {tokens} tokens, and the context holds {limit}. Nothing was cut off. Edit it, or load the model with a longer context.</source>
        <translation>Die letzte Nachricht allein braucht {tokens} Token, und der Kontext fasst {limit}. Nichts wurde abgeschnitten. Kürzen Sie die Nachricht, oder laden Sie das Modell mit einem längeren Kontext.</translation>
    </message>
    <message>
        <source>The last message alone takes {tokens} tokens, and the context holds {limit}. Nothing was cut off. Edit it; this model can&apos;t hold more than {longest} tokens.</source>
        <translation>Die letzte Nachricht allein braucht {tokens} Token, und der Kontext fasst {limit}. Nichts wurde abgeschnitten. Kürzen Sie die Nachricht; dieses Modell fasst höchstens {longest} Token.</translation>
    </message>
    <message>
        <source>Counting tokens</source>
        <translation>Zählen der Token</translation>
    </message>
    <message>
        <source>Tree</source>
        <translation>Baum</translation>
    </message>
    <message>
        <source>The reply as a tree</source>
        <translation>Die Antwort als Baum</translation>
    </message>
    <message>
        <source>Source</source>
        <translation>Quelltext</translation>
    </message>
    <message>
        <source>The reply as it was written</source>
        <translation>Die Antwort, wie sie geschrieben wurde</translation>
    </message>
    <message>
        <source>Table</source>
        <translation>Tabelle</translation>
    </message>
    <message>
        <source>Not checked: {reason}</source>
        <translation>Nicht geprüft: {reason}</translation>
    </message>
    <message>
        <source>Not valid: {reason}</source>
        <translation>Ungültig: {reason}</translation>
    </message>
    <message>
        <source>Valid JSON.</source>
        <translation>Gültiges JSON.</translation>
    </message>
    <message>
        <source>Valid against the schema.</source>
        <translation>Gültig nach dem Schema.</translation>
    </message>
    <message>
        <source>Name</source>
        <translation>Name</translation>
    </message>
    <message>
        <source>Value</source>
        <translation>Wert</translation>
    </message>
    <message>
        <source>The reply as a table</source>
        <translation>Die Antwort als Tabelle</translation>
    </message>
    <message>
        <source>… {count} more</source>
        <translation>… {count} weitere</translation>
    </message>
    <message>
        <source>1 field</source>
        <translation>1 Feld</translation>
    </message>
    <message>
        <source>1 item</source>
        <translation>1 Eintrag</translation>
    </message>
    <message>
        <source>{count} fields</source>
        <translation>{count} Felder</translation>
    </message>
    <message>
        <source>{count} items</source>
        <translation>{count} Einträge</translation>
    </message>
    <message>
        <source>… {count} more columns</source>
        <translation>… {count} weitere Spalten</translation>
    </message>
    <message>
        <source>… 1 more column</source>
        <translation>… 1 weitere Spalte</translation>
    </message>
    <message>
        <source>Write at most {count} choices, each of at most {length} characters.</source>
        <translation>Schreiben Sie höchstens {count} Möglichkeiten mit je höchstens {length} Zeichen.</translation>
    </message>
    <message>
        <source>Checking a format</source>
        <translation>Prüfen eines Formats</translation>
    </message>
    <message>
        <source>Reading a reply</source>
        <translation>Auswerten einer Antwort</translation>
    </message>
    <message>
        <source>Copying a reply</source>
        <translation>Kopieren einer Antwort</translation>
    </message>
    <message>
        <source>Storing a draft</source>
        <translation>Speichern eines Entwurfs</translation>
    </message>
    <message>
        <source>Storing instructions</source>
        <translation>Speichern der Anweisungen</translation>
    </message>
    <message>
        <source>This is the demo model: it describes simple pictures of shapes and remembers what you tell it.</source>
        <translation>Das ist das Demomodell: Es beschreibt auf Englisch einfache Bilder von Formen und merkt sich, was Sie ihm sagen.</translation>
    </message>
    <message>
        <source>What would you like to look&#xa0;at?</source>
        <translation>Was möchten Sie sich&#xa0;ansehen?</translation>
    </message>
    <message>
        <source>Ask a question below, or drop a picture and ask&#xa0;about&#xa0;it.</source>
        <translation>Stellen Sie unten eine Frage, oder legen Sie ein Bild ab und fragen Sie&#xa0;danach.</translation>
    </message>
    <message>
        <source>Everything stays on this computer. What the model has read is reused if possible: Context&#xa0;(Ctrl+1)&#xa0;shows&#xa0;how.</source>
        <translation>Alles bleibt auf diesem Computer. Was das Modell gelesen hat, wird wenn möglich wiederverwendet: Kontext&#xa0;(Strg+1)&#xa0;zeigt,&#xa0;wie.</translation>
    </message>
    <message>
        <source>Your messages are sent to {host}, where {model}&#xa0;answers.</source>
        <translation>Ihre Nachrichten gehen an {host}, wo {model}&#xa0;antwortet.</translation>
    </message>
    <message>
        <source>Try this one</source>
        <translation>Probieren Sie dieses</translation>
    </message>
    <message>
        <source>No model is loaded. Choose one to begin.</source>
        <translation>Kein Modell geladen. Wählen Sie eines, um zu beginnen.</translation>
    </message>
    <message>
        <source>Get a model for this computer</source>
        <translation>Modell für diesen Computer holen</translation>
    </message>
    <message>
        <source>Use models I already have</source>
        <translation>Vorhandene Modelle verwenden</translation>
    </message>
    <message>
        <source>Choose a folder…</source>
        <translation>Ordner wählen…</translation>
    </message>
    <message>
        <source>Choose a model folder</source>
        <translation>Modellordner wählen</translation>
    </message>
    <message>
        <source>Choose a GGUF file…</source>
        <translation>GGUF-Datei wählen…</translation>
    </message>
    <message>
        <source>Choose a GGUF file</source>
        <translation>GGUF-Datei wählen</translation>
    </message>
    <message>
        <source>Get a model…</source>
        <translation>Modell holen…</translation>
    </message>
    <message>
        <source>Get a model</source>
        <translation>Modell holen</translation>
    </message>
    <message>
        <source>Models…</source>
        <translation>Modelle…</translation>
    </message>
    <message>
        <source>Models on this computer</source>
        <translation>Modelle auf diesem Computer</translation>
    </message>
    <message>
        <source>Try sample {number}: {question}</source>
        <translation>Beispiel {number} ausprobieren: {question}</translation>
    </message>
    <message>
        <source>Precision: {precision}, the most exact one that fits your memory and is fast here.
Context: up to {tokens} tokens in a chat, as long as memory allows.
Cache: up to {host} of memory and {disk} of disk space for what was read.</source>
        <translation>Genauigkeit: {precision}, die genaueste, die in Ihren Speicher passt und hier schnell ist.
Kontext: bis zu {tokens} Token in einem Chat, solange der Speicher reicht.
Cache: bis zu {host} Arbeitsspeicher und {disk} Festplatte für das, was gelesen wurde.</translation>
    </message>
    <message>
        <source>What is in the picture?</source>
        <translation>What is in the picture?</translation>
    </message>
    <message>
        <source>What colour is the star?</source>
        <translation>What colour is the star?</translation>
    </message>
    <message>
        <source>Count the crosses.</source>
        <translation>Count the crosses.</translation>
    </message>
    <message>
        <source>Where is the diamond?</source>
        <translation>Where is the diamond?</translation>
    </message>
    <message>
        <source>How big is the star?</source>
        <translation>How big is the star?</translation>
    </message>
    <message>
        <source>What can you do?</source>
        <translation>What can you do?</translation>
    </message>
    <message>
        <source>Find in this chat</source>
        <translation>In diesem Chat suchen</translation>
    </message>
    <message>
        <source>{number} of {total}</source>
        <translation>{number} von {total}</translation>
    </message>
    <message>
        <source>No match</source>
        <translation>Kein Treffer</translation>
    </message>
    <message>
        <source>Previous match (Shift+Enter)</source>
        <translation>Voriger Treffer (Umschalt+Eingabe)</translation>
    </message>
    <message>
        <source>Next match (Enter)</source>
        <translation>Nächster Treffer (Eingabetaste)</translation>
    </message>
    <message>
        <source>Close (Esc)</source>
        <translation>Schließen (Esc)</translation>
    </message>
    <message>
        <source>Copy the code</source>
        <translation>Code kopieren</translation>
    </message>
    <message>
        <source>The beginning is shown once this is complete.</source>
        <translation>Der Anfang wird angezeigt, sobald dies vollständig ist.</translation>
    </message>
    <message>
        <source>Code, {language}</source>
        <translation>Code, {language}</translation>
    </message>
    <message>
        <source>Code</source>
        <translation>Code</translation>
    </message>
    <message>
        <source>Show more of this message</source>
        <translation>Mehr von dieser Nachricht zeigen</translation>
    </message>
    <message>
        <source>Show more: {count} characters are not shown</source>
        <translation>Mehr zeigen: {count} Zeichen sind nicht zu sehen</translation>
    </message>
    <message>
        <source>Copy</source>
        <translation>Kopieren</translation>
    </message>
    <message>
        <source>Copy link</source>
        <translation>Link kopieren</translation>
    </message>
    <message>
        <source>Select all</source>
        <translation>Alles auswählen</translation>
    </message>
    <message>
        <source>Message</source>
        <translation>Nachricht</translation>
    </message>
    <message>
        <source>Ask a question, or drop a picture or a document</source>
        <translation>Frage stellen, oder Bild oder Dokument ablegen</translation>
    </message>
    <message>
        <source>Edit the reply</source>
        <translation>Antwort bearbeiten</translation>
    </message>
    <message>
        <source>Save as a new version</source>
        <translation>Als neue Fassung speichern</translation>
    </message>
    <message>
        <source>Save (Ctrl+Enter)</source>
        <translation>Speichern (Strg+Eingabe)</translation>
    </message>
    <message>
        <source>Not added: a reply can&apos;t have pictures or documents.</source>
        <translation>Nicht hinzugefügt: Eine Antwort kann keine Bilder oder Dokumente enthalten.</translation>
    </message>
    <message>
        <source>Add pictures or documents</source>
        <translation>Bilder oder Dokumente hinzufügen</translation>
    </message>
    <message>
        <source>Edit your message</source>
        <translation>Nachricht bearbeiten</translation>
    </message>
    <message>
        <source>Send again</source>
        <translation>Erneut senden</translation>
    </message>
    <message>
        <source>The message can be sent once its files are ready.</source>
        <translation>Die Nachricht kann gesendet werden, sobald ihre Dateien bereit sind.</translation>
    </message>
    <message>
        <source>Taking back a queued message</source>
        <translation>Zurückholen einer eingereihten Nachricht</translation>
    </message>
    <message>
        <source>Sending a queued message</source>
        <translation>Senden einer eingereihten Nachricht</translation>
    </message>
    <message>
        <source>Queued messages</source>
        <translation>Eingereihte Nachrichten</translation>
    </message>
    <message>
        <source>Move it back into the message field</source>
        <translation>Zurück ins Nachrichtenfeld</translation>
    </message>
    <message>
        <source>Queued: {text}</source>
        <translation>Eingereiht: {text}</translation>
    </message>
    <message>
        <source>Queued: {text}, 1 image</source>
        <translation>Eingereiht: {text}, 1 Bild</translation>
    </message>
    <message>
        <source>Queued: {text}, {count} images</source>
        <translation>Eingereiht: {text}, {count} Bilder</translation>
    </message>
    <message>
        <source>Queued: 1 image</source>
        <translation>Eingereiht: 1 Bild</translation>
    </message>
    <message>
        <source>Queued: {count} images</source>
        <translation>Eingereiht: {count} Bilder</translation>
    </message>
    <message>
        <source>Insert messages</source>
        <translation>Nachrichten einfügen</translation>
    </message>
    <message>
        <source>Fill in one or both. Messages after this place are read again.</source>
        <translation>Füllen Sie eines oder beide aus. Nachrichten nach dieser Stelle werden neu gelesen.</translation>
    </message>
    <message>
        <source>Reply</source>
        <translation>Antwort</translation>
    </message>
    <message>
        <source>Insert</source>
        <translation>Einfügen</translation>
    </message>
    <message>
        <source>Your message</source>
        <translation>Ihre Nachricht</translation>
    </message>
    <message>
        <source>Copy as plain text</source>
        <translation>Als reinen Text kopieren</translation>
    </message>
    <message>
        <source>Copy as formatted text</source>
        <translation>Als formatierten Text kopieren</translation>
    </message>
    <message>
        <source>Quote in your message</source>
        <translation>In Ihrer Nachricht zitieren</translation>
    </message>
    <message>
        <source>Insert above…</source>
        <translation>Darüber einfügen…</translation>
    </message>
    <message>
        <source>Insert below…</source>
        <translation>Darunter einfügen…</translation>
    </message>
    <message>
        <source>Move the messages after another version here</source>
        <translation>Nachrichten nach einer anderen Fassung hierher verschieben</translation>
    </message>
    <message>
        <source>Write a reply</source>
        <translation>Antwort schreiben</translation>
    </message>
    <message>
        <source>Delete with its reply</source>
        <translation>Mit der Antwort löschen</translation>
    </message>
    <message>
        <source>Show the previous version</source>
        <translation>Vorige Fassung zeigen</translation>
    </message>
    <message>
        <source>Show the next version</source>
        <translation>Nächste Fassung zeigen</translation>
    </message>
    <message>
        <source>Copy the reply</source>
        <translation>Antwort kopieren</translation>
    </message>
    <message>
        <source>Copy the message</source>
        <translation>Nachricht kopieren</translation>
    </message>
    <message>
        <source>Copy as JSON, indented</source>
        <translation>Als JSON kopieren, eingerückt</translation>
    </message>
    <message>
        <source>Write another reply</source>
        <translation>Neue Antwort schreiben lassen</translation>
    </message>
    <message>
        <source>Edit the message and send it again</source>
        <translation>Nachricht bearbeiten und erneut senden</translation>
    </message>
    <message>
        <source>Fork into a new chat</source>
        <translation>Als neuen Chat abzweigen</translation>
    </message>
    <message>
        <source>More actions</source>
        <translation>Weitere Aktionen</translation>
    </message>
    <message>
        <source>Continue the reply from where it stopped</source>
        <translation>Antwort dort fortsetzen, wo sie aufgehört hat</translation>
    </message>
    <message>
        <source>Continue</source>
        <translation>Fortsetzen</translation>
    </message>
    <message>
        <source>Version {number} of {count}</source>
        <translation>Fassung {number} von {count}</translation>
    </message>
    <message>
        <source>Show all numbers of this reply</source>
        <translation>Alle Zahlen dieser Antwort zeigen</translation>
    </message>
    <message>
        <source>Hide all numbers of this reply</source>
        <translation>Alle Zahlen dieser Antwort ausblenden</translation>
    </message>
    <message>
        <source>Reply {message}</source>
        <translation>Antwort {message}</translation>
    </message>
    <message>
        <source>Stopping</source>
        <translation>Anhalten</translation>
    </message>
    <message>
        <source>The engine did not stop in time.</source>
        <translation>Die Engine hat nicht rechtzeitig angehalten.</translation>
    </message>
    <message>
        <source>This chat has pictures, and {model} can&apos;t see them.</source>
        <translation>Dieser Chat enthält Bilder, und {model} kann sie nicht sehen.</translation>
    </message>
    <message>
        <source>Waiting for the engine</source>
        <translation>Wartet auf die Engine</translation>
    </message>
    <message>
        <source>Waiting for {host}</source>
        <translation>Wartet auf {host}</translation>
    </message>
    <message>
        <source>Waiting for another reply to finish</source>
        <translation>Wartet, bis eine andere Antwort fertig ist</translation>
    </message>
    <message>
        <source>Waiting for {count} other replies to finish</source>
        <translation>Wartet, bis {count} andere Antworten fertig sind</translation>
    </message>
    <message>
        <source>Reading an image: {done} of {count} tokens</source>
        <translation>Liest ein Bild: {done} von {count} Token</translation>
    </message>
    <message>
        <source>Reading: {done} of {count} tokens</source>
        <translation>Liest: {done} von {count} Token</translation>
    </message>
    <message>
        <source>Thinking…</source>
        <translation>Denkt nach…</translation>
    </message>
    <message>
        <source>Thought</source>
        <translation>Nachgedacht</translation>
    </message>
    <message>
        <source>Hide the reasoning</source>
        <translation>Überlegungen ausblenden</translation>
    </message>
    <message>
        <source>Show the reasoning</source>
        <translation>Überlegungen zeigen</translation>
    </message>
    <message>
        <source>Storing the settings of a chat</source>
        <translation>Speichern der Einstellungen eines Chats</translation>
    </message>
    <message>
        <source>Choosing where replies are written</source>
        <translation>Wählen, wo Antworten geschrieben werden</translation>
    </message>
    <message>
        <source>Opening a chat</source>
        <translation>Öffnen eines Chats</translation>
    </message>
    <message>
        <source>Storing the format of replies</source>
        <translation>Speichern des Antwortformats</translation>
    </message>
    <message>
        <source>Edited by you.</source>
        <translation>Von Ihnen bearbeitet.</translation>
    </message>
    <message>
        <source>Cut off: the reply reached the length limit you set.</source>
        <translation>Abgeschnitten: Die Antwort hat die eingestellte Länge erreicht.</translation>
    </message>
    <message>
        <source>Cut off: the context is full.</source>
        <translation>Abgeschnitten: Der Kontext ist voll.</translation>
    </message>
    <message>
        <source>Cut off: without a limit of your own, structured replies end after {count} tokens.</source>
        <translation>Abgeschnitten: Ohne eigene Grenze enden strukturierte Antworten nach {count} Token.</translation>
    </message>
    <message>
        <source>Cut off: without a limit of your own, reasoning ends after {count} tokens.</source>
        <translation>Abgeschnitten: Ohne eigene Grenze endet das Nachdenken nach {count} Token.</translation>
    </message>
    <message>
        <source>Cut off: the reply kept repeating the same words.</source>
        <translation>Abgeschnitten: Die Antwort hat immer dieselben Wörter wiederholt.</translation>
    </message>
    <message>
        <source>Cut off: the reply reached {size} MB, the most that one reply can hold.</source>
        <translation>Abgeschnitten: Die Antwort hat {size} MB erreicht, mehr kann eine Antwort nicht enthalten.</translation>
    </message>
    <message>
        <source>Stopped.</source>
        <translation>Angehalten.</translation>
    </message>
    <message>
        <source>Stopped: Waymark was closed before the reply was complete.</source>
        <translation>Angehalten: Waymark wurde geschlossen, bevor die Antwort fertig war.</translation>
    </message>
    <message>
        <source>Conversation</source>
        <translation>Unterhaltung</translation>
    </message>
    <message>
        <source>Jump to the end</source>
        <translation>Zum Ende springen</translation>
    </message>
    <message>
        <source>The model no longer reads the messages above</source>
        <translation>Das Modell liest die Nachrichten darüber nicht mehr</translation>
    </message>
    <message>
        <source>Have the model read all messages again</source>
        <translation>Das Modell wieder alle Nachrichten lesen lassen</translation>
    </message>
    <message>
        <source>Undo</source>
        <translation>Rückgängig</translation>
    </message>
    <message>
        <source>open</source>
        <translation>offen</translation>
    </message>
    <message>
        <source>closed</source>
        <translation>geschlossen</translation>
    </message>
    <message>
        <source>fork</source>
        <translation>Abzweigung</translation>
    </message>
    <message>
        <source>Today</source>
        <translation>Heute</translation>
    </message>
    <message>
        <source>Yesterday</source>
        <translation>Gestern</translation>
    </message>
    <message>
        <source>Last 7 days</source>
        <translation>Letzte 7 Tage</translation>
    </message>
    <message>
        <source>Pinned</source>
        <translation>Angeheftet</translation>
    </message>
    <message>
        <source>Kept until {}</source>
        <translation>Aufbewahrt bis {}</translation>
    </message>
    <message>
        <source>Reading the chats</source>
        <translation>Lesen der Chats</translation>
    </message>
    <message>
        <source>Renaming a chat</source>
        <translation>Umbenennen eines Chats</translation>
    </message>
    <message>
        <source>Pinning a chat</source>
        <translation>Anheften eines Chats</translation>
    </message>
    <message>
        <source>Deleting a chat</source>
        <translation>Löschen eines Chats</translation>
    </message>
    <message>
        <source>Restoring a chat</source>
        <translation>Wiederherstellen eines Chats</translation>
    </message>
    <message>
        <source>Restoring messages</source>
        <translation>Wiederherstellen von Nachrichten</translation>
    </message>
    <message>
        <source>Forking a chat</source>
        <translation>Abzweigen eines Chats</translation>
    </message>
    <message>
        <source>Replying</source>
        <translation>Antworten</translation>
    </message>
    <message>
        <source>Deleting old chats for good</source>
        <translation>Endgültiges Löschen alter Chats</translation>
    </message>
    <message>
        <source>Deleting all data</source>
        <translation>Löschen aller Daten</translation>
    </message>
    <message>
        <source>Deleting for good</source>
        <translation>Endgültiges Löschen</translation>
    </message>
    <message>
        <source>Forgetting deleted chats</source>
        <translation>Vergessen gelöschter Chats</translation>
    </message>
    <message>
        <source>The context of a deleted chat could not be deleted yet: {} Waymark tries again at the next start.</source>
        <translation>Der Kontext eines gelöschten Chats konnte noch nicht gelöscht werden: {} Waymark versucht es beim nächsten Start erneut.</translation>
    </message>
    <message>
        <source>{file} could not be deleted: {reason}. Waymark tries again the next time a chat is deleted for good.</source>
        <translation>{file} konnte nicht gelöscht werden: {reason}. Waymark versucht es erneut, wenn wieder ein Chat endgültig gelöscht wird.</translation>
    </message>
    <message>
        <source>New chat</source>
        <translation>Neuer Chat</translation>
    </message>
    <message>
        <source>Search titles</source>
        <translation>Titel durchsuchen</translation>
    </message>
    <message>
        <source>Search messages too</source>
        <translation>In Nachrichten suchen</translation>
    </message>
    <message>
        <source>Chats</source>
        <translation>Chats</translation>
    </message>
    <message>
        <source>Pin to the top</source>
        <translation>Oben anheften</translation>
    </message>
    <message>
        <source>Trash ({})</source>
        <translation>Papierkorb ({})</translation>
    </message>
    <message>
        <source>Move to folder</source>
        <translation>In Ordner verschieben</translation>
    </message>
    <message>
        <source>No folder</source>
        <translation>Kein Ordner</translation>
    </message>
    <message>
        <source>New folder</source>
        <translation>Neuer Ordner</translation>
    </message>
    <message>
        <source>Moved to {folder}. It is listed at the top, because it is pinned.</source>
        <translation>Nach {folder} verschoben. Der Chat steht oben, weil er angeheftet ist.</translation>
    </message>
    <message>
        <source>New chats begin with</source>
        <translation>Neue Chats beginnen mit</translation>
    </message>
    <message>
        <source>New chat in this folder</source>
        <translation>Neuer Chat in diesem Ordner</translation>
    </message>
    <message>
        <source>Rename</source>
        <translation>Umbenennen</translation>
    </message>
    <message>
        <source>Delete the folder, keep its chats</source>
        <translation>Ordner löschen, Chats behalten</translation>
    </message>
    <message>
        <source>The default for new chats</source>
        <translation>Dem Standard für neue Chats</translation>
    </message>
    <message>
        <source>The settings of a chat</source>
        <translation>Den Einstellungen eines Chats</translation>
    </message>
    <message>
        <source>{name}, as it was chosen</source>
        <translation>{name}, wie es gewählt wurde</translation>
    </message>
    <message>
        <source>The settings of the chat on screen</source>
        <translation>Den Einstellungen des gezeigten Chats</translation>
    </message>
    <message>
        <source>Delete</source>
        <translation>Löschen</translation>
    </message>
    <message>
        <source>Search titles and #tags</source>
        <translation>Titel und #Schlagworte</translation>
    </message>
    <message>
        <source>Rename the chat or folder (F2)</source>
        <translation>Chat oder Ordner umbenennen (F2)</translation>
    </message>
    <message>
        <source>Delete the chat or folder (Delete)</source>
        <translation>Chat oder Ordner löschen (Entf)</translation>
    </message>
    <message>
        <source>Unpin</source>
        <translation>Lösen</translation>
    </message>
    <message>
        <source>No title contains “{}”.</source>
        <translation>Kein Titel enthält „{}“.</translation>
    </message>
    <message>
        <source>Trash</source>
        <translation>Papierkorb</translation>
    </message>
    <message>
        <source>Restore</source>
        <translation>Wiederherstellen</translation>
    </message>
    <message>
        <source>Delete for good</source>
        <translation>Endgültig löschen</translation>
    </message>
    <message>
        <source>Restore the chat to the list</source>
        <translation>Chat in der Liste wiederherstellen</translation>
    </message>
    <message>
        <source>Delete all for good</source>
        <translation>Alle endgültig löschen</translation>
    </message>
    <message>
        <source>Keep</source>
        <translation>Behalten</translation>
    </message>
    <message>
        <source>Back to the chats</source>
        <translation>Zurück zu den Chats</translation>
    </message>
    <message>
        <source>Kept for {} days, then deleted for good.</source>
        <translation>Werden {} Tage aufbewahrt, dann endgültig gelöscht.</translation>
    </message>
    <message>
        <source>Delete this for good? It can&apos;t be undone.</source>
        <translation>Das endgültig löschen? Es lässt sich nicht rückgängig machen.</translation>
    </message>
    <message>
        <source>Delete all {} entries for good? This can&apos;t be undone.</source>
        <translation>Alle {} Einträge endgültig löschen? Das lässt sich nicht rückgängig machen.</translation>
    </message>
    <message>
        <source>Delete this chat for good, with its messages and pictures? This can&apos;t be undone.</source>
        <translation>Diesen Chat mit seinen Nachrichten und Bildern endgültig löschen? Das lässt sich nicht rückgängig machen.</translation>
    </message>
    <message>
        <source>Delete all {} chats for good, with their messages and pictures? This can&apos;t be undone.</source>
        <translation>Alle {} Chats mit ihren Nachrichten und Bildern endgültig löschen? Das lässt sich nicht rückgängig machen.</translation>
    </message>
    <message>
        <source>Contexts can&apos;t be saved on disk, so after a restart they are read again: {reason}</source>
        <translation>Kontexte können nicht auf der Festplatte gespeichert werden und werden nach einem Neustart neu gelesen: {reason}</translation>
    </message>
    <message>
        <source>Reading the prompt</source>
        <translation>Liest den Prompt</translation>
    </message>
    <message>
        <source>Why tokens were read a second time.</source>
        <translation>Warum Token ein zweites Mal gelesen wurden.</translation>
    </message>
    <message>
        <source>Reading…</source>
        <translation>Liest…</translation>
    </message>
    <message>
        <source>{done} of {prompt} prompt tokens, {reused} of them reused.</source>
        <translation>{done} von {prompt} Token des Prompts, davon {reused} wiederverwendet.</translation>
    </message>
    <message>
        <source>Tokens of this chat in the context, and how many fit. While the computer is idle, the last reply is read in the form that later turns use, which may take a few tokens more or fewer.</source>
        <translation>Token dieses Chats im Kontext, und wie viele hineinpassen. Im Leerlauf wird die letzte Antwort so gelesen, wie spätere Beiträge sie verwenden; das können einige Token mehr oder weniger sein.</translation>
    </message>
    <message>
        <source>In the context</source>
        <translation>Im Kontext</translation>
    </message>
    <message>
        <source>Number that the chart shows</source>
        <translation>Zahl, die das Diagramm zeigt</translation>
    </message>
    <message>
        <source>Reused</source>
        <translation>Wiederverwendet</translation>
    </message>
    <message>
        <source>Reading saved</source>
        <translation>Gespartes Lesen</translation>
    </message>
    <message>
        <source>Days</source>
        <translation>Tage</translation>
    </message>
    <message>
        <source>Time that the chart shows</source>
        <translation>Zeitraum, den das Diagramm zeigt</translation>
    </message>
    <message>
        <source>Last 7 days: about {time} of reading saved.</source>
        <translation>Letzte 7 Tage: etwa {time} Lesen gespart.</translation>
    </message>
    <message>
        <source>No replies yet.</source>
        <translation>Noch keine Antworten.</translation>
    </message>
    <message>
        <source>Prompt tokens reused for this reply, not read.</source>
        <translation>Token des Prompts, die für diese Antwort wiederverwendet statt gelesen wurden.</translation>
    </message>
    <message>
        <source>Read</source>
        <translation>Gelesen</translation>
    </message>
    <message>
        <source>Prompt tokens read before the first word.</source>
        <translation>Token des Prompts, die vor dem ersten Wort gelesen wurden.</translation>
    </message>
    <message>
        <source>Images reused</source>
        <translation>Bilder wiederverwendet</translation>
    </message>
    <message>
        <source>Images that weren&apos;t encoded again.</source>
        <translation>Bilder, die nicht erneut verarbeitet wurden.</translation>
    </message>
    <message>
        <source>Images encoded</source>
        <translation>Bilder verarbeitet</translation>
    </message>
    <message>
        <source>Images encoded for this reply.</source>
        <translation>Bilder, die für diese Antwort verarbeitet wurden.</translation>
    </message>
    <message>
        <source>First token</source>
        <translation>Erstes Token</translation>
    </message>
    <message>
        <source>Time from Send to the first token.</source>
        <translation>Zeit vom Senden bis zum ersten Token.</translation>
    </message>
    <message>
        <source>Speed</source>
        <translation>Tempo</translation>
    </message>
    <message>
        <source>Tokens of the reply written per second.</source>
        <translation>Geschriebene Token der Antwort je Sekunde.</translation>
    </message>
    <message>
        <source>Drafts</source>
        <translation>Vermutungen</translation>
    </message>
    <message>
        <source>Tokens written in a step on average: more than one if guesses were right.</source>
        <translation>Geschriebene Token je Schritt im Mittel: mehr als eines, wenn Vermutungen richtig waren.</translation>
    </message>
    <message>
        <source>Saved states from which reading can resume: of this chat, and of all chats.</source>
        <translation>Gespeicherte Zustände, von denen aus weitergelesen werden kann: von diesem Chat und von allen Chats.</translation>
    </message>
    <message>
        <source>Checkpoints</source>
        <translation>Checkpoints</translation>
    </message>
    <message>
        <source>Restored from</source>
        <translation>Wiederhergestellt aus</translation>
    </message>
    <message>
        <source>Where the reused part was stored.</source>
        <translation>Wo der wiederverwendete Teil gespeichert war.</translation>
    </message>
    <message>
        <source>The context holds {tokens} of this chat.</source>
        <translation>Der Kontext enthält {tokens} dieses Chats.</translation>
    </message>
    <message>
        <source>Ready to continue</source>
        <translation>Bereit zum Fortsetzen</translation>
    </message>
    <message>
        <source>Draft read</source>
        <translation>Entwurf gelesen</translation>
    </message>
    <message>
        <source>{tokens} of your draft are already read.</source>
        <translation>{tokens} Ihres Entwurfs sind schon gelesen.</translation>
    </message>
    <message>
        <source>The last reply was written by another model, or with other model settings. The next message reads the whole chat; {limit} tokens fit.</source>
        <translation>Die letzte Antwort stammt von einem anderen Modell oder anderen Modelleinstellungen. Mit der nächsten Nachricht wird der ganze Chat gelesen; {limit} Token passen hinein.</translation>
    </message>
    <message>
        <source>Not read by this model</source>
        <translation>Von diesem Modell nicht gelesen</translation>
    </message>
    <message>
        <source>Numbers appear with the first message.</source>
        <translation>Zahlen erscheinen mit der ersten Nachricht.</translation>
    </message>
    <message>
        <source>{limit} tokens fit.</source>
        <translation>{limit} Token passen hinein.</translation>
    </message>
    <message>
        <source>Nothing read yet</source>
        <translation>Noch nichts gelesen</translation>
    </message>
    <message>
        <source>Checkpoints, budgets and drafts are those of {host}. They can&apos;t be seen or set from here, and the same chat may get another reply there.</source>
        <translation>Checkpoints, Budgets und Vermutungen sind die von {host}. Von hier aus sind sie weder zu sehen noch einzustellen, und derselbe Chat kann dort eine andere Antwort bekommen.</translation>
    </message>
    <message>
        <source>Numbers that {host} reports appear with its first reply.</source>
        <translation>Zahlen, die {host} meldet, erscheinen mit seiner ersten Antwort.</translation>
    </message>
    <message>
        <source>Runs on {host}</source>
        <translation>Läuft auf {host}</translation>
    </message>
    <message>
        <source>{percent} % cached there</source>
        <translation>{percent} % dort aus dem Cache</translation>
    </message>
    <message>
        <source>{host} reports {reused} of {prompt} prompt tokens from its cache.</source>
        <translation>{host} meldet {reused} von {prompt} Token des Prompts aus seinem Cache.</translation>
    </message>
    <message>
        <source>{tokens} sent</source>
        <translation>{tokens} gesendet</translation>
    </message>
    <message>
        <source>{host} doesn&apos;t report how many of them were in its cache.</source>
        <translation>{host} meldet nicht, wie viele davon in seinem Cache waren.</translation>
    </message>
    <message>
        <source>{host} hasn&apos;t reported how many tokens the prompt has.</source>
        <translation>{host} hat nicht gemeldet, wie viele Token der Prompt hat.</translation>
    </message>
    <message>
        <source>not known here</source>
        <translation>hier nicht bekannt</translation>
    </message>
    <message>
        <source>First message: {tokens} read</source>
        <translation>Erste Nachricht: {tokens} gelesen</translation>
    </message>
    <message>
        <source>{percent} % reused</source>
        <translation>{percent} % wiederverwendet</translation>
    </message>
    <message>
        <source>{reused} of {prompt} prompt tokens were reused.</source>
        <translation>{reused} von {prompt} Token des Prompts wurden wiederverwendet.</translation>
    </message>
    <message>
        <source>Not loaded</source>
        <translation>Nicht geladen</translation>
    </message>
    <message>
        <source>{count} here</source>
        <translation>{count} hier</translation>
    </message>
    <message>
        <source>{count} here, {total} in all chats</source>
        <translation>{count} hier, {total} in allen Chats</translation>
    </message>
    <message>
        <source>Later turns leave out this reply&apos;s reasoning: {held} of {asked} stay in the context.</source>
        <translation>Spätere Beiträge lassen die Überlegungen dieser Antwort weg: {held} von {asked} bleiben im Kontext.</translation>
    </message>
    <message>
        <source>Later turns show this reply in a shorter form: {held} of {asked} stay in the context.</source>
        <translation>Spätere Beiträge zeigen diese Antwort in kürzerer Form: {held} von {asked} bleiben im Kontext.</translation>
    </message>
    <message>
        <source>How full the context is</source>
        <translation>Wie voll der Kontext ist</translation>
    </message>
    <message>
        <source>The strip shows the used part.</source>
        <translation>Der Streifen zeigt den belegten Teil.</translation>
    </message>
    <message>
        <source>Context</source>
        <translation>Kontext</translation>
    </message>
    <message>
        <source>{used} of {limit} tokens</source>
        <translation>{used} von {limit} Token</translation>
    </message>
    <message>
        <source>(not to scale)</source>
        <translation>(nicht maßstäblich)</translation>
    </message>
    <message>
        <source>nothing is kept here</source>
        <translation>hier wird nichts aufbewahrt</translation>
    </message>
    <message>
        <source>{used} of {budget}</source>
        <translation>{used} von {budget}</translation>
    </message>
    <message>
        <source>Graphics memory</source>
        <translation>Grafikspeicher</translation>
    </message>
    <message>
        <source>Memory</source>
        <translation>Arbeitsspeicher</translation>
    </message>
    <message>
        <source>Disk</source>
        <translation>Festplatte</translation>
    </message>
    <message>
        <source>Context in use now</source>
        <translation>Gerade verwendeter Kontext</translation>
    </message>
    <message>
        <source>Other contexts</source>
        <translation>Andere Kontexte</translation>
    </message>
    <message>
        <source>Encoded pictures</source>
        <translation>Verarbeitete Bilder</translation>
    </message>
    <message>
        <source>Being copied</source>
        <translation>Wird kopiert</translation>
    </message>
    <message>
        <source>Contexts and pictures</source>
        <translation>Kontexte und Bilder</translation>
    </message>
    <message>
        <source>Prefilling a reply</source>
        <translation>Lesen einer Antwort im Leerlauf</translation>
    </message>
    <message>
        <source>Prefilling a chat</source>
        <translation>Lesen eines Chats im Leerlauf</translation>
    </message>
    <message>
        <source>Prefilling a reply being edited</source>
        <translation>Lesen einer Antwort, die bearbeitet wird</translation>
    </message>
    <message>
        <source>Prefilling the draft</source>
        <translation>Lesen des Entwurfs</translation>
    </message>
    <message>
        <source>Writing a summary of this chat…</source>
        <translation>Schreibt eine Zusammenfassung dieses Chats…</translation>
    </message>
    <message>
        <source>Leaving out the oldest turns</source>
        <translation>Weglassen der ältesten Beiträge</translation>
    </message>
    <message>
        <source>Including all messages again</source>
        <translation>Wieder Einbeziehen aller Nachrichten</translation>
    </message>
    <message>
        <source>Writing a summary</source>
        <translation>Schreiben einer Zusammenfassung</translation>
    </message>
    <message>
        <source>No summary was written: {reason}</source>
        <translation>Es wurde keine Zusammenfassung geschrieben: {reason}</translation>
    </message>
    <message>
        <source>Load a model first.</source>
        <translation>Laden Sie zuerst ein Modell.</translation>
    </message>
    <message>
        <source>The model wrote nothing.</source>
        <translation>Das Modell hat nichts geschrieben.</translation>
    </message>
    <message>
        <source>The context is filling up</source>
        <translation>Der Kontext wird voll</translation>
    </message>
    <message>
        <source>Edit the message</source>
        <translation>Nachricht bearbeiten</translation>
    </message>
    <message>
        <source>Shorten it and send it again</source>
        <translation>Kürzen und erneut senden</translation>
    </message>
    <message>
        <source>Leave out oldest turns</source>
        <translation>Älteste Beiträge weglassen</translation>
    </message>
    <message>
        <source>The model no longer reads them; they stay in this chat</source>
        <translation>Das Modell liest sie nicht mehr; sie bleiben in diesem Chat</translation>
    </message>
    <message>
        <source>New chat from a summary</source>
        <translation>Neuer Chat aus einer Zusammenfassung</translation>
    </message>
    <message>
        <source>This chat stays as it is</source>
        <translation>Dieser Chat bleibt, wie er ist</translation>
    </message>
    <message>
        <source>Load with {tokens} tokens ({size})</source>
        <translation>Mit {tokens} Token laden ({size})</translation>
    </message>
    <message>
        <source>Its KV cache takes {size} of memory</source>
        <translation>Der KV-Cache braucht {size} Arbeitsspeicher</translation>
    </message>
    <message>
        <source>In use now {}</source>
        <translation>Gerade verwendet {}</translation>
    </message>
    <message>
        <source>In memory {}</source>
        <translation>Im Arbeitsspeicher {}</translation>
    </message>
    <message>
        <source>On disk {}</source>
        <translation>Auf der Festplatte {}</translation>
    </message>
    <message>
        <source>Not loaded {}</source>
        <translation>Nicht geladen {}</translation>
    </message>
    <message>
        <source>Free {count}</source>
        <translation>Frei {count}</translation>
    </message>
    <message>
        <source>Also on disk</source>
        <translation>Auch auf der Festplatte</translation>
    </message>
    <message>
        <source>Reused {}</source>
        <translation>Wiederverwendet {}</translation>
    </message>
    <message>
        <source>Read {}</source>
        <translation>Gelesen {}</translation>
    </message>
    <message>
        <source>Reply {}</source>
        <translation>Antwort {}</translation>
    </message>
    <message>
        <source>token {first}</source>
        <translation>Token {first}</translation>
    </message>
    <message>
        <source>{first} to {last}</source>
        <translation>{first} bis {last}</translation>
    </message>
    <message>
        <source>Image</source>
        <translation>Bild</translation>
    </message>
    <message>
        <source>Text</source>
        <translation>Text</translation>
    </message>
    <message>
        <source>Still to be read.</source>
        <translation>Muss noch gelesen werden.</translation>
    </message>
    <message>
        <source>In use now.</source>
        <translation>Wird gerade verwendet.</translation>
    </message>
    <message>
        <source>In memory, ready to be reused.</source>
        <translation>Im Arbeitsspeicher, zur Wiederverwendung bereit.</translation>
    </message>
    <message>
        <source>On disk, loaded when needed.</source>
        <translation>Auf der Festplatte, wird bei Bedarf geladen.</translation>
    </message>
    <message>
        <source>Not loaded: the next message loads what is saved and reads the rest.</source>
        <translation>Nicht geladen: Die nächste Nachricht lädt das Gespeicherte und liest den Rest.</translation>
    </message>
    <message>
        <source>Kept after a restart.</source>
        <translation>Bleibt nach einem Neustart erhalten.</translation>
    </message>
    <message>
        <source>Lost at a restart.</source>
        <translation>Geht bei einem Neustart verloren.</translation>
    </message>
    <message>
        <source>The context is empty.</source>
        <translation>Der Kontext ist leer.</translation>
    </message>
    <message>
        <source>The context holds {used} of {limit}: {where}.</source>
        <translation>Der Kontext enthält {used} von {limit}: {where}.</translation>
    </message>
    <message>
        <source>Reused for the last reply.</source>
        <translation>Für die letzte Antwort wiederverwendet.</translation>
    </message>
    <message>
        <source>Read for the last reply.</source>
        <translation>Für die letzte Antwort gelesen.</translation>
    </message>
    <message>
        <source>The last reply itself.</source>
        <translation>Die letzte Antwort selbst.</translation>
    </message>
    <message>
        <source>{} reused</source>
        <translation>{} wiederverwendet</translation>
    </message>
    <message>
        <source>{} read</source>
        <translation>{} gelesen</translation>
    </message>
    <message>
        <source>{} written</source>
        <translation>{} geschrieben</translation>
    </message>
    <message>
        <source>For the last reply: {counts}.</source>
        <translation>Für die letzte Antwort: {counts}.</translation>
    </message>
    <message>
        <source>Starting the engine</source>
        <translation>Starten der Engine</translation>
    </message>
    <message>
        <source>Loading a model</source>
        <translation>Laden eines Modells</translation>
    </message>
    <message>
        <source>The engine is already starting.</source>
        <translation>Die Engine startet bereits.</translation>
    </message>
    <message>
        <source>Starting the engine again</source>
        <translation>Neustart der Engine</translation>
    </message>
    <message>
        <source>Ejecting the model</source>
        <translation>Entladen des Modells</translation>
    </message>
    <message>
        <source>Another model was chosen meanwhile.</source>
        <translation>Inzwischen wurde ein anderes Modell gewählt.</translation>
    </message>
    <message>
        <source>Deleting quantised weights</source>
        <translation>Löschen der quantisierten Gewichte</translation>
    </message>
    <message>
        <source>{model} was not loaded. {title}: {message}</source>
        <translation>{model} wurde nicht geladen. {title}: {message}</translation>
    </message>
    <message>
        <source>The engine isn&apos;t responding</source>
        <translation>Die Engine reagiert nicht</translation>
    </message>
    <message>
        <source>Waiting for the first model</source>
        <translation>Wartet auf das erste Modell</translation>
    </message>
    <message>
        <source>Comparing two models</source>
        <translation>Zwei Modelle werden verglichen</translation>
    </message>
    <message>
        <source>Keeping a reply</source>
        <translation>Behalten einer Antwort</translation>
    </message>
    <message>
        <source>Loading the model: {percent} %</source>
        <translation>Modell wird geladen: {percent} %</translation>
    </message>
    <message>
        <source>Loading the model</source>
        <translation>Modell wird geladen</translation>
    </message>
    <message>
        <source>The message has pictures, and {model} can&apos;t see them.</source>
        <translation>Die Nachricht hat Bilder, und {model} kann sie nicht sehen.</translation>
    </message>
    <message>
        <source>The model sleeps</source>
        <translation>Das Modell schläft</translation>
    </message>
    <message>
        <source>Loading was cancelled</source>
        <translation>Das Laden wurde abgebrochen</translation>
    </message>
    <message>
        <source>No model is loaded</source>
        <translation>Kein Modell geladen</translation>
    </message>
    <message>
        <source>The engine stopped; restarting it</source>
        <translation>Die Engine wurde beendet und startet neu</translation>
    </message>
    <message>
        <source>The engine could not be started</source>
        <translation>Die Engine konnte nicht gestartet werden</translation>
    </message>
    <message>
        <source>Closing</source>
        <translation>Wird geschlossen</translation>
    </message>
    <message>
        <source>Waiting for a model: choose one under Model &amp; settings.</source>
        <translation>Wartet auf ein Modell: Wählen Sie eines unter „Modell &amp; Einstellungen“.</translation>
    </message>
    <message>
        <source>Waiting for the model. {state} …</source>
        <translation>Wartet auf das Modell. {state} …</translation>
    </message>
    <message>
        <source>Compare two models</source>
        <translation>Zwei Modelle vergleichen</translation>
    </message>
    <message>
        <source>Message to both models</source>
        <translation>Nachricht an beide Modelle</translation>
    </message>
    <message>
        <source>Ask both models the same</source>
        <translation>Fragen Sie beide Modelle dasselbe</translation>
    </message>
    <message>
        <source>Leave them out</source>
        <translation>Weglassen</translation>
    </message>
    <message>
        <source>Compare</source>
        <translation>Vergleichen</translation>
    </message>
    <message>
        <source>First model</source>
        <translation>Erstes Modell</translation>
    </message>
    <message>
        <source>Second model</source>
        <translation>Zweites Modell</translation>
    </message>
    <message>
        <source>With {files}</source>
        <translation>Mit {files}</translation>
    </message>
    <message>
        <source>The demo model</source>
        <translation>Das Demomodell</translation>
    </message>
    <message>
        <source>Kept as chat</source>
        <translation>Ist jetzt ein Chat</translation>
    </message>
    <message>
        <source>Keep as chat</source>
        <translation>Als Chat behalten</translation>
    </message>
    <message>
        <source>Messages in chats wait until both models have answered.</source>
        <translation>Nachrichten in Chats warten, bis beide Modelle geantwortet haben.</translation>
    </message>
    <message>
        <source>The models answer one after the other. Then the present model is loaded again. Only a reply that you keep becomes a chat.</source>
        <translation>Die Modelle antworten nacheinander. Danach wird das jetzige Modell wieder geladen. Nur Antworten, die Sie behalten, werden zu Chats.</translation>
    </message>
    <message>
        <source>{tokens} tokens were read before, which made this reply faster.</source>
        <translation>{tokens} Token waren schon gelesen, was diese Antwort beschleunigt hat.</translation>
    </message>
    <message>
        <source>Memory: {weights} for the weights, {context} for the context</source>
        <translation>Speicher: {weights} für die Gewichte, {context} für den Kontext</translation>
    </message>
    <message>
        <source>Ollama model {digest}</source>
        <translation>Ollama-Modell {digest}</translation>
    </message>
    <message>
        <source>{task} ended with an error ({kind}).</source>
        <translation>{task} endete mit einem Fehler ({kind}).</translation>
    </message>
    <message>
        <source>Something went wrong</source>
        <translation>Etwas ist schiefgegangen</translation>
    </message>
    <message>
        <source>The disk or server did not answer within {seconds:.0f} seconds.</source>
        <translation>Festplatte oder Server haben {seconds:.0f} Sekunden lang nicht geantwortet.</translation>
    </message>
    <message>
        <source>{file}: {counts} from {program}.</source>
        <translation>{file}: {counts} aus {program}.</translation>
    </message>
    <message>
        <source>no program</source>
        <translation>keinem Programm</translation>
    </message>
    <message>
        <source>{file}: {error}</source>
        <translation>{file}: {error}</translation>
    </message>
    <message>
        <source>Exporting chats</source>
        <translation>Exportieren von Chats</translation>
    </message>
    <message>
        <source>Importing chats</source>
        <translation>Importieren von Chats</translation>
    </message>
    <message>
        <source>Printing</source>
        <translation>Drucken</translation>
    </message>
    <message>
        <source>Exporting to {}…</source>
        <translation>Export nach {}…</translation>
    </message>
    <message>
        <source>{path} can&apos;t be written: {reason}.</source>
        <translation>{path} kann nicht geschrieben werden: {reason}.</translation>
    </message>
    <message>
        <source>Exported to {path}: {chats}.</source>
        <translation>Exportiert nach {path}: {chats}.</translation>
    </message>
    <message>
        <source>Missing files: {pictures}.</source>
        <translation>Fehlende Dateien: {pictures}.</translation>
    </message>
    <message>
        <source>The printer did not accept the pages.</source>
        <translation>Der Drucker hat die Seiten nicht angenommen.</translation>
    </message>
    <message>
        <source>Sent to {}.</source>
        <translation>Gesendet an {}.</translation>
    </message>
    <message>
        <source>Printed to {}.</source>
        <translation>Gedruckt in {}.</translation>
    </message>
    <message>
        <source>Importing {}…</source>
        <translation>Import von {}…</translation>
    </message>
    <message>
        <source>Imported: {chats}.</source>
        <translation>Importiert: {chats}.</translation>
    </message>
    <message>
        <source>A chat without a title</source>
        <translation>Ein Chat ohne Titel</translation>
    </message>
    <message>
        <source>could not be read</source>
        <translation>konnte nicht gelesen werden</translation>
    </message>
    <message>
        <source>pictures that are not in the file or can&apos;t be read: {}</source>
        <translation>Bilder, die nicht in der Datei sind oder nicht gelesen werden können: {}</translation>
    </message>
    <message>
        <source>attached files, left out: {}</source>
        <translation>angehängte Dateien, weggelassen: {}</translation>
    </message>
    <message>
        <source>tool messages, left out: {}</source>
        <translation>Nachrichten von Werkzeugen, weggelassen: {}</translation>
    </message>
    <message>
        <source>Everything: ZIP ({patterns})</source>
        <translation>Alles: ZIP ({patterns})</translation>
    </message>
    <message>
        <source>Everything: JSON ({patterns})</source>
        <translation>Alles: JSON ({patterns})</translation>
    </message>
    <message>
        <source>What is shown: PDF ({patterns})</source>
        <translation>Was zu sehen ist: PDF ({patterns})</translation>
    </message>
    <message>
        <source>What is shown: HTML ({patterns})</source>
        <translation>Was zu sehen ist: HTML ({patterns})</translation>
    </message>
    <message>
        <source>What is shown: Markdown ({patterns})</source>
        <translation>Was zu sehen ist: Markdown ({patterns})</translation>
    </message>
    <message>
        <source>Backups ({patterns})</source>
        <translation>Sicherungen ({patterns})</translation>
    </message>
    <message>
        <source>Exported chats ({patterns});;All files (*)</source>
        <translation>Exportierte Chats ({patterns});;Alle Dateien (*)</translation>
    </message>
    <message>
        <source>Import chats</source>
        <translation>Chats importieren</translation>
    </message>
    <message>
        <source>Back up everything</source>
        <translation>Alles sichern</translation>
    </message>
    <message>
        <source>Restore a backup</source>
        <translation>Sicherung wiederherstellen</translation>
    </message>
    <message>
        <source>Imported chats</source>
        <translation>Importierte Chats</translation>
    </message>
    <message>
        <source>What was imported</source>
        <translation>Was importiert wurde</translation>
    </message>
    <message>
        <source>Words, or pages like 3-7, 12</source>
        <translation>Wörter, oder Seiten wie 3-7, 12</translation>
    </message>
    <message>
        <source>Words</source>
        <translation>Wörter</translation>
    </message>
    <message>
        <source>Parts of the document</source>
        <translation>Teile des Dokuments</translation>
    </message>
    <message>
        <source>The text that the model reads</source>
        <translation>Der Text, den das Modell liest</translation>
    </message>
    <message>
        <source>Close</source>
        <translation>Schließen</translation>
    </message>
    <message>
        <source>Use these</source>
        <translation>Diese verwenden</translation>
    </message>
    <message>
        <source>All</source>
        <translation>Alle</translation>
    </message>
    <message>
        <source>Only those found</source>
        <translation>Nur die gefundenen</translation>
    </message>
    <message>
        <source>Choose the parts with the most matches, as many as the context has room for</source>
        <translation>Die Teile mit den meisten Treffern wählen, so viele, wie in den Kontext passen</translation>
    </message>
    <message>
        <source>The best that fit</source>
        <translation>Die besten, die passen</translation>
    </message>
    <message>
        <source>Chosen: {chosen} of {unit}, about {tokens} tokens.</source>
        <translation>Gewählt: {chosen} von {unit}, etwa {tokens} Token.</translation>
    </message>
    <message>
        <source>Chosen: {chosen} of {unit}, about {tokens} tokens. The context has room for {room}.</source>
        <translation>Gewählt: {chosen} von {unit}, etwa {tokens} Token. Im Kontext ist Platz für {room}.</translation>
    </message>
    <message>
        <source>Choose at least one part.</source>
        <translation>Wählen Sie mindestens einen Teil.</translation>
    </message>
    <message>
        <source>Page {number}</source>
        <translation>Seite {number}</translation>
    </message>
    <message>
        <source>Section {number}</source>
        <translation>Abschnitt {number}</translation>
    </message>
    <message>
        <source>Export this chat</source>
        <translation>Diesen Chat exportieren</translation>
    </message>
    <message>
        <source>Export all chats</source>
        <translation>Alle Chats exportieren</translation>
    </message>
    <message>
        <source>Waymark chats</source>
        <translation>Waymark-Chats</translation>
    </message>
    <message>
        <source>It is a damaged ZIP file.</source>
        <translation>Es ist eine beschädigte ZIP-Datei.</translation>
    </message>
    <message>
        <source>It contains no chats.</source>
        <translation>Es enthält keine Chats.</translation>
    </message>
    <message>
        <source>It contains too many chats.</source>
        <translation>Es enthält zu viele Chats.</translation>
    </message>
    <message>
        <source>It could not be read ({reason}).</source>
        <translation>Es konnte nicht gelesen werden ({reason}).</translation>
    </message>
    <message>
        <source>It is a damaged or encrypted ZIP file.</source>
        <translation>Es ist eine beschädigte oder verschlüsselte ZIP-Datei.</translation>
    </message>
    <message>
        <source>{name} is larger than {size}.</source>
        <translation>{name} ist größer als {size}.</translation>
    </message>
    <message>
        <source>The file</source>
        <translation>Die Datei</translation>
    </message>
    <message>
        <source>It has too many entries.</source>
        <translation>Es hat zu viele Einträge.</translation>
    </message>
    <message>
        <source>It contains names that point outside its folder.</source>
        <translation>Es enthält Namen, die aus seinem Ordner hinausführen.</translation>
    </message>
    <message>
        <source>As JSON it is larger than {size}, the most that can be imported. Use ZIP.</source>
        <translation>Als JSON ist es größer als {size}, das Größte, was importiert werden kann. Verwenden Sie ZIP.</translation>
    </message>
    <message>
        <source>You</source>
        <translation>Sie</translation>
    </message>
    <message>
        <source>Model server</source>
        <translation>Modellserver</translation>
    </message>
    <message>
        <source>Proxy</source>
        <translation>Proxy</translation>
    </message>
    <message>
        <source>the system&apos;s proxy</source>
        <translation>der Proxy des Systems</translation>
    </message>
    <message>
        <source>Access token</source>
        <translation>Zugriffstoken</translation>
    </message>
    <message>
        <source>Let Waymark connect, to search for and download models and to use servers that you added</source>
        <translation>Waymark darf sich verbinden, um Modelle zu suchen und herunterzuladen und Server zu verwenden, die Sie hinzugefügt haben</translation>
    </message>
    <message>
        <source>Delete the access token</source>
        <translation>Zugriffstoken löschen</translation>
    </message>
    <message>
        <source>Speed limit in MB a second</source>
        <translation>Tempogrenze in MB je Sekunde</translation>
    </message>
    <message>
        <source> MB a second</source>
        <translation> MB je Sekunde</translation>
    </message>
    <message>
        <source>no limit</source>
        <translation>keine Grenze</translation>
    </message>
    <message>
        <source>Folder for models</source>
        <translation>Ordner für Modelle</translation>
    </message>
    <message>
        <source>Choose a folder for models</source>
        <translation>Ordner für Modelle wählen</translation>
    </message>
    <message>
        <source>Folder</source>
        <translation>Ordner</translation>
    </message>
    <message>
        <source>Load</source>
        <translation>Laden</translation>
    </message>
    <message>
        <source>Download of {name}</source>
        <translation>Download von {name}</translation>
    </message>
    <message>
        <source>Pause</source>
        <translation>Pause</translation>
    </message>
    <message>
        <source>Resume</source>
        <translation>Fortsetzen</translation>
    </message>
    <message>
        <source>Pause the download of {name}</source>
        <translation>Download von {name} anhalten</translation>
    </message>
    <message>
        <source>Resume the download of {name}</source>
        <translation>Download von {name} fortsetzen</translation>
    </message>
    <message>
        <source>Hide</source>
        <translation>Ausblenden</translation>
    </message>
    <message>
        <source>Hide {name}</source>
        <translation>{name} ausblenden</translation>
    </message>
    <message>
        <source>Delete the download of {name}</source>
        <translation>Download von {name} löschen</translation>
    </message>
    <message>
        <source>Load {name}</source>
        <translation>{name} laden</translation>
    </message>
    <message>
        <source>Delete a download</source>
        <translation>Download löschen</translation>
    </message>
    <message>
        <source>Keep it</source>
        <translation>Behalten</translation>
    </message>
    <message>
        <source>Delete the part of {name} that is downloaded?</source>
        <translation>Den heruntergeladenen Teil von {name} löschen?</translation>
    </message>
    <message>
        <source>{done} of {total}</source>
        <translation>{done} von {total}</translation>
    </message>
    <message>
        <source>{amount}, downloading in another Waymark</source>
        <translation>{amount}, wird in einem anderen Waymark heruntergeladen</translation>
    </message>
    <message>
        <source>Complete: {total}, every file checked against its published digest.</source>
        <translation>Vollständig: {total}, jede Datei gegen ihre veröffentlichte Prüfsumme geprüft.</translation>
    </message>
    <message>
        <source>Stopped at {amount}. {title}: {message}</source>
        <translation>Angehalten bei {amount}. {title}: {message}</translation>
    </message>
    <message>
        <source>{amount}, starting</source>
        <translation>{amount}, startet</translation>
    </message>
    <message>
        <source>Paused at {amount}</source>
        <translation>Angehalten bei {amount}</translation>
    </message>
    <message>
        <source>waiting to try again: {reason}</source>
        <translation>wartet auf einen neuen Versuch: {reason}</translation>
    </message>
    <message>
        <source>checking the part that is downloaded</source>
        <translation>prüft den heruntergeladenen Teil</translation>
    </message>
    <message>
        <source>no data is arriving</source>
        <translation>es kommen keine Daten an</translation>
    </message>
    <message>
        <source>{speed} a second, {time} left</source>
        <translation>{speed} je Sekunde, noch {time}</translation>
    </message>
    <message>
        <source>none</source>
        <translation>keines</translation>
    </message>
    <message>
        <source>in the system&apos;s keyring</source>
        <translation>im Schlüsselbund des Systems</translation>
    </message>
    <message>
        <source>in memory, until you quit</source>
        <translation>im Arbeitsspeicher, bis Sie beenden</translation>
    </message>
    <message>
        <source>Changing the connection</source>
        <translation>Ändern der Verbindung</translation>
    </message>
    <message>
        <source>Looking for downloads</source>
        <translation>Suchen nach Downloads</translation>
    </message>
    <message>
        <source>Starting a download</source>
        <translation>Starten eines Downloads</translation>
    </message>
    <message>
        <source>Resuming a download</source>
        <translation>Fortsetzen eines Downloads</translation>
    </message>
    <message>
        <source>Pausing a download</source>
        <translation>Anhalten eines Downloads</translation>
    </message>
    <message>
        <source>Deleting a download</source>
        <translation>Löschen eines Downloads</translation>
    </message>
    <message>
        <source>Allow Waymark to connect first; the switch is in this window.</source>
        <translation>Erlauben Sie Waymark zuerst, sich zu verbinden; der Schalter ist in diesem Fenster.</translation>
    </message>
    <message>
        <source>in {precision}</source>
        <translation>in {precision}</translation>
    </message>
    <message>
        <source>as published</source>
        <translation>wie veröffentlicht</translation>
    </message>
    <message>
        <source>How much memory it needs is not published.</source>
        <translation>Wie viel Speicher es braucht, ist nicht veröffentlicht.</translation>
    </message>
    <message>
        <source>Fits {way}: needs about {needed} of memory; {free} are free.</source>
        <translation>Passt {way}: braucht etwa {needed} Speicher; {free} sind frei.</translation>
    </message>
    <message>
        <source>Tight: even {way} it needs about {needed} of memory, and {free} are free. Close other programs first.</source>
        <translation>Knapp: Selbst {way} braucht es etwa {needed} Speicher, und {free} sind frei. Schließen Sie zuerst andere Programme.</translation>
    </message>
    <message>
        <source>Doesn&apos;t fit: even {way} it needs about {needed} of memory. {free} are free.</source>
        <translation>Passt nicht: Selbst {way} braucht es etwa {needed} Speicher. {free} sind frei.</translation>
    </message>
    <message>
        <source>fits</source>
        <translation>passt</translation>
    </message>
    <message>
        <source>tight</source>
        <translation>knapp</translation>
    </message>
    <message>
        <source>doesn&apos;t fit</source>
        <translation>passt nicht</translation>
    </message>
    <message>
        <source>How much memory it needs is not known.</source>
        <translation>Wie viel Speicher es braucht, ist nicht bekannt.</translation>
    </message>
    <message>
        <source>Fits in {precision}: {needed} with a context of {tokens} tokens, and {free} are free.</source>
        <translation>Passt in {precision}: {needed} mit einem Kontext von {tokens} Token, und {free} sind frei.</translation>
    </message>
    <message>
        <source>Tight: lower the precision to {precision}, with which it needs {needed}.</source>
        <translation>Knapp: Wählen Sie die Genauigkeit {precision}; damit braucht es {needed}.</translation>
    </message>
    <message>
        <source>Tight: in {precision} there is memory for a context of {tokens} tokens. Lower the context length, or close other programs.</source>
        <translation>Knapp: In {precision} reicht der Speicher für einen Kontext von {tokens} Token. Verkürzen Sie den Kontext, oder schließen Sie andere Programme.</translation>
    </message>
    <message>
        <source>Tight: it is larger than the free memory. {size} of it are read from disk for each token, which is slow.</source>
        <translation>Knapp: Es ist größer als der freie Speicher. Für jedes Token werden {size} davon von der Festplatte gelesen, was langsam ist.</translation>
    </message>
    <message>
        <source>Tight: even in {precision} it needs {needed}, and {free} are free. Close other programs first.</source>
        <translation>Knapp: Selbst in {precision} braucht es {needed}, und {free} sind frei. Schließen Sie zuerst andere Programme.</translation>
    </message>
    <message>
        <source>Doesn&apos;t fit: even in {precision} it needs {needed}, and {free} of {total} are free.</source>
        <translation>Passt nicht: Selbst in {precision} braucht es {needed}, und {free} von {total} sind frei.</translation>
    </message>
    <message>
        <source>about {size} of memory in {precision}</source>
        <translation>etwa {size} Speicher in {precision}</translation>
    </message>
    <message>
        <source>Search Hugging Face, or paste Org/Name</source>
        <translation>Hugging Face durchsuchen oder Org/Name einfügen</translation>
    </message>
    <message>
        <source>Search</source>
        <translation>Suchen</translation>
    </message>
    <message>
        <source>Connection</source>
        <translation>Verbindung</translation>
    </message>
    <message>
        <source>Models</source>
        <translation>Modelle</translation>
    </message>
    <message>
        <source>Opening {name}…</source>
        <translation>Öffnet {name}…</translation>
    </message>
    <message>
        <source>Searching…</source>
        <translation>Sucht…</translation>
    </message>
    <message>
        <source>Asking the model server</source>
        <translation>Anfrage beim Modellserver</translation>
    </message>
    <message>
        <source>{count} models that Waymark runs, the most downloaded first.</source>
        <translation>{count} Modelle, die in Waymark laufen, die meistgeladenen zuerst.</translation>
    </message>
    <message>
        <source>No model that Waymark runs has these words in its name.</source>
        <translation>Kein Modell, das in Waymark läuft, hat diese Wörter im Namen.</translation>
    </message>
    <message>
        <source>Nothing in this repository is in a format Waymark reads.</source>
        <translation>Nichts in diesem Repository hat ein Format, das Waymark liest.</translation>
    </message>
    <message>
        <source>Some models to begin with, those for this computer first. The list goes by what their makers publish; we haven&apos;t tried them. Waymark connects when you search, click a model or download.</source>
        <translation>Einige Modelle für den Anfang, zuerst die für diesen Computer. Die Liste folgt den Angaben der Hersteller; wir haben sie nicht ausprobiert. Waymark verbindet sich, wenn Sie suchen, ein Modell anklicken oder herunterladen.</translation>
    </message>
    <message>
        <source>{model}, for this computer</source>
        <translation>{model}, für diesen Computer</translation>
    </message>
    <message>
        <source>Choosing a folder</source>
        <translation>Wählen eines Ordners</translation>
    </message>
    <message>
        <source>What to download</source>
        <translation>Was heruntergeladen wird</translation>
    </message>
    <message>
        <source>Download</source>
        <translation>Herunterladen</translation>
    </message>
    <message>
        <source>Click a model to see its files</source>
        <translation>Klicken Sie ein Modell an, um seine Dateien zu sehen</translation>
    </message>
    <message>
        <source>{count} parameters</source>
        <translation>{count} Parameter</translation>
    </message>
    <message>
        <source>licence: {name}</source>
        <translation>Lizenz: {name}</translation>
    </message>
    <message>
        <source>not named</source>
        <translation>nicht angegeben</translation>
    </message>
    <message>
        <source>a kind of model that Waymark doesn&apos;t run</source>
        <translation>eine Art von Modell, die in Waymark nicht läuft</translation>
    </message>
    <message>
        <source>gated: accept its licence on its page and enter an access token under Connection</source>
        <translation>zugangsbeschränkt: Nehmen Sie die Lizenz auf seiner Seite an und geben Sie unter „Verbindung“ ein Zugriffstoken ein</translation>
    </message>
    <message>
        <source> and {count} more</source>
        <translation> und {count} weitere</translation>
    </message>
    <message>
        <source>Looking for models</source>
        <translation>Sucht nach Modellen</translation>
    </message>
    <message>
        <source>{folder} does not answer. The models in it are not in the list.</source>
        <translation>{folder} antwortet nicht. Die Modelle darin fehlen in der Liste.</translation>
    </message>
    <message>
        <source>A folder of models</source>
        <translation>Ein Ordner mit Modellen</translation>
    </message>
    <message>
        <source>Eject</source>
        <translation>Entladen</translation>
    </message>
    <message>
        <source>Show in folder</source>
        <translation>Im Ordner zeigen</translation>
    </message>
    <message>
        <source>Move…</source>
        <translation>Verschieben…</translation>
    </message>
    <message>
        <source>Its files have not been read yet.</source>
        <translation>Die Dateien wurden noch nicht gelesen.</translation>
    </message>
    <message>
        <source>Memory by precision and context</source>
        <translation>Speicher nach Genauigkeit und Kontext</translation>
    </message>
    <message>
        <source>Precision</source>
        <translation>Genauigkeit</translation>
    </message>
    <message>
        <source>Read per token</source>
        <translation>Pro Token gelesen</translation>
    </message>
    <message>
        <source>1,000 tokens read</source>
        <translation>1.000 Token gelesen</translation>
    </message>
    <message>
        <source>{precision} with {tokens}: {needed}, {fit}</source>
        <translation>{precision} mit {tokens}: {needed}, {fit}</translation>
    </message>
    <message>
        <source>more than is free</source>
        <translation>mehr als frei ist</translation>
    </message>
    <message>
        <source>{tokens} tokens</source>
        <translation>{tokens} Token</translation>
    </message>
    <message>
        <source>published in {precision}</source>
        <translation>veröffentlicht in {precision}</translation>
    </message>
    <message>
        <source>unknown precision</source>
        <translation>unbekannte Genauigkeit</translation>
    </message>
    <message>
        <source>reads pictures</source>
        <translation>liest Bilder</translation>
    </message>
    <message>
        <source>reads text only</source>
        <translation>liest nur Text</translation>
    </message>
    <message>
        <source>can think first</source>
        <translation>kann vorher nachdenken</translation>
    </message>
    <message>
        <source>context up to {tokens} tokens</source>
        <translation>Kontext bis {tokens} Token</translation>
    </message>
    <message>
        <source>{size} on disk</source>
        <translation>{size} auf der Festplatte</translation>
    </message>
    <message>
        <source>Audio input isn&apos;t supported.</source>
        <translation>Audioeingabe wird nicht unterstützt.</translation>
    </message>
    <message>
        <source>About {speed}, and {seconds} for 1,000 tokens of a prompt, as measured here.</source>
        <translation>Etwa {speed}, und {seconds} für 1.000 Token eines Prompts, hier gemessen.</translation>
    </message>
    <message>
        <source>Search models on this computer</source>
        <translation>Modelle auf diesem Computer suchen</translation>
    </message>
    <message>
        <source>Delete a model</source>
        <translation>Modell löschen</translation>
    </message>
    <message>
        <source>Move to trash</source>
        <translation>In den Papierkorb</translation>
    </message>
    <message>
        <source>Folders</source>
        <translation>Ordner</translation>
    </message>
    <message>
        <source>Add a folder…</source>
        <translation>Ordner hinzufügen…</translation>
    </message>
    <message>
        <source>Look again</source>
        <translation>Erneut suchen</translation>
    </message>
    <message>
        <source>Compare two models…</source>
        <translation>Zwei Modelle vergleichen…</translation>
    </message>
    <message>
        <source>No model has these words in its name</source>
        <translation>Kein Modell hat diese Wörter im Namen</translation>
    </message>
    <message>
        <source>Looking for models…</source>
        <translation>Sucht nach Modellen…</translation>
    </message>
    <message>
        <source>No models in these folders. Get one, or add a folder that has some</source>
        <translation>Keine Modelle in diesen Ordnern. Holen Sie eines, oder fügen Sie einen Ordner hinzu</translation>
    </message>
    <message>
        <source>{models}.</source>
        <translation>{models}.</translation>
    </message>
    <message>
        <source>{models}, {size} on disk.</source>
        <translation>{models}, {size} auf der Festplatte.</translation>
    </message>
    <message>
        <source>Reading {count} of them…</source>
        <translation>{count} davon werden gelesen…</translation>
    </message>
    <message>
        <source>Waymark looks into its own folder, folders that you add, and those of LM Studio, Ollama and Hugging Face.</source>
        <translation>Waymark sieht in seinem eigenen Ordner nach, in Ordnern, die Sie hinzufügen, und in denen von LM Studio, Ollama und Hugging Face.</translation>
    </message>
    <message>
        <source>Stop looking in {folder}</source>
        <translation>Nicht mehr in {folder} suchen</translation>
    </message>
    <message>
        <source>Add a folder with models</source>
        <translation>Ordner mit Modellen hinzufügen</translation>
    </message>
    <message>
        <source>Moving a model</source>
        <translation>Verschieben eines Modells</translation>
    </message>
    <message>
        <source>Choose a folder on another disk</source>
        <translation>Ordner auf einem anderen Laufwerk wählen</translation>
    </message>
    <message>
        <source>Deleting a model</source>
        <translation>Löschen eines Modells</translation>
    </message>
    <message>
        <source>Its other copies stay.</source>
        <translation>Seine anderen Kopien bleiben.</translation>
    </message>
    <message>
        <source>not read yet</source>
        <translation>noch nicht gelesen</translation>
    </message>
    <message>
        <source>about {speed}</source>
        <translation>etwa {speed}</translation>
    </message>
    <message>
        <source>Choose a model</source>
        <translation>Modell wählen</translation>
    </message>
    <message>
        <source>There are several models. Choose one.</source>
        <translation>Es gibt mehrere Modelle. Wählen Sie eines.</translation>
    </message>
    <message>
        <source>Choose</source>
        <translation>Wählen</translation>
    </message>
    <message>
        <source>All models…</source>
        <translation>Alle Modelle…</translation>
    </message>
    <message>
        <source>On this computer</source>
        <translation>Auf diesem Computer</translation>
    </message>
    <message>
        <source>On a server</source>
        <translation>Auf einem Server</translation>
    </message>
    <message>
        <source>Add a server…</source>
        <translation>Server hinzufügen…</translation>
    </message>
    <message>
        <source>Model settings</source>
        <translation>Modelleinstellungen</translation>
    </message>
    <message>
        <source>No model</source>
        <translation>Kein Modell</translation>
    </message>
    <message>
        <source>Model: {name}</source>
        <translation>Modell: {name}</translation>
    </message>
    <message>
        <source>Other folders</source>
        <translation>Andere Ordner</translation>
    </message>
    <message>
        <source>No models of LM Studio, Ollama or Hugging Face</source>
        <translation>Keine Modelle von LM Studio, Ollama oder Hugging Face</translation>
    </message>
    <message>
        <source>{count} more</source>
        <translation>{count} weitere</translation>
    </message>
    <message>
        <source>Move {name} to the trash? It frees {size}.</source>
        <translation>{name} in den Papierkorb verschieben? Das macht {size} frei.</translation>
    </message>
    <message>
        <source>Move {name} to the trash? It frees {size}. It belongs to {program}, which will no longer find it.</source>
        <translation>{name} in den Papierkorb verschieben? Das macht {size} frei. Es gehört zu {program}, das es dann nicht mehr findet.</translation>
    </message>
    <message>
        <source>Ollama shares files between its models. Delete it there: ollama rm {name}</source>
        <translation>Ollama teilt Dateien zwischen seinen Modellen. Löschen Sie es dort: ollama rm {name}</translation>
    </message>
    <message>
        <source>{folder} holds other files too. Delete the model&apos;s files in your file manager.</source>
        <translation>{folder} enthält auch andere Dateien. Löschen Sie die Dateien des Modells in Ihrem Dateimanager.</translation>
    </message>
    <message>
        <source>The system could not move {path} to the trash.</source>
        <translation>Das System konnte {path} nicht in den Papierkorb verschieben.</translation>
    </message>
    <message>
        <source>Model</source>
        <translation>Modell</translation>
    </message>
    <message>
        <source>The model that wrote the reply.</source>
        <translation>Das Modell, das die Antwort geschrieben hat.</translation>
    </message>
    <message>
        <source>Written</source>
        <translation>Geschrieben</translation>
    </message>
    <message>
        <source>When the reply began.</source>
        <translation>Wann die Antwort begann.</translation>
    </message>
    <message>
        <source>Prompt tokens</source>
        <translation>Token des Prompts</translation>
    </message>
    <message>
        <source>Everything before the reply.</source>
        <translation>Alles vor der Antwort.</translation>
    </message>
    <message>
        <source>Prompt tokens that did not have to be read.</source>
        <translation>Token des Prompts, die nicht gelesen werden mussten.</translation>
    </message>
    <message>
        <source>Prompt tokens read before the reply&apos;s first token.</source>
        <translation>Token des Prompts, die vor dem ersten Token der Antwort gelesen wurden.</translation>
    </message>
    <message>
        <source>Images that were not encoded again.</source>
        <translation>Bilder, die nicht erneut verarbeitet wurden.</translation>
    </message>
    <message>
        <source>The source of the reused part.</source>
        <translation>Woher der wiederverwendete Teil kam.</translation>
    </message>
    <message>
        <source>Time from the request to the first token.</source>
        <translation>Zeit von der Anfrage bis zum ersten Token.</translation>
    </message>
    <message>
        <source>Tokens of the reply per second.</source>
        <translation>Token der Antwort je Sekunde.</translation>
    </message>
    <message>
        <source>Tokens guessed, then checked several at a time.</source>
        <translation>Token, die vermutet und dann gemeinsam geprüft wurden.</translation>
    </message>
    <message>
        <source>Reply tokens</source>
        <translation>Token der Antwort</translation>
    </message>
    <message>
        <source>The length of the reply in tokens.</source>
        <translation>Die Länge der Antwort in Token.</translation>
    </message>
    <message>
        <source>Why read</source>
        <translation>Warum gelesen</translation>
    </message>
    <message>
        <source>Why tokens were read for this reply.</source>
        <translation>Warum für diese Antwort Token gelesen wurden.</translation>
    </message>
    <message>
        <source>{speed} tokens/s</source>
        <translation>{speed} Token/s</translation>
    </message>
    <message>
        <source>Loaded in {}, including {} to arrange the weights; quantised weights came from disk.</source>
        <translation>Geladen in {}, davon {} zum Anordnen der Gewichte; quantisierte Gewichte kamen von der Festplatte.</translation>
    </message>
    <message>
        <source>Loaded in {}, including {} to arrange the weights.</source>
        <translation>Geladen in {}, davon {} zum Anordnen der Gewichte.</translation>
    </message>
    <message>
        <source>Each token of a reply reads {} of weights.</source>
        <translation>Jedes Token einer Antwort liest {} an Gewichten.</translation>
    </message>
    <message>
        <source>Replies are slower than they could be: {}.</source>
        <translation>Antworten sind langsamer als möglich: {}.</translation>
    </message>
    <message>
        <source>Automatic: {precision}, because {larger} needs more than the {free} that were free.</source>
        <translation>Automatisch: {precision}, weil {larger} mehr braucht als die {free}, die frei waren.</translation>
    </message>
    <message>
        <source>Automatic: {precision}, because {larger} needs {needed} and only {free} were free.</source>
        <translation>Automatisch: {precision}, weil {larger} {needed} braucht und nur {free} frei waren.</translation>
    </message>
    <message>
        <source>Automatic: {precision}, because it is the smallest: it needs more than the {free} that were free.</source>
        <translation>Automatisch: {precision}, weil es das Kleinste ist: Es braucht mehr als die {free}, die frei waren.</translation>
    </message>
    <message>
        <source>Automatic: {precision}, because it is the smallest: it needs {needed} and only {free} were free.</source>
        <translation>Automatisch: {precision}, weil es das Kleinste ist: Es braucht {needed}, und nur {free} waren frei.</translation>
    </message>
    <message>
        <source>Automatic: {precision}, because it fits and is faster than {slower} on this processor: it needs {needed} and {free} were free.</source>
        <translation>Automatisch: {precision}, weil es passt und auf diesem Prozessor schneller ist als {slower}: Es braucht {needed}, und {free} waren frei.</translation>
    </message>
    <message>
        <source>Automatic: {precision}, because it fits: it needs {needed} and {free} were free.</source>
        <translation>Automatisch: {precision}, weil es passt: Es braucht {needed}, und {free} waren frei.</translation>
    </message>
    <message>
        <source>{} token</source>
        <translation>{} Token</translation>
    </message>
    <message>
        <source>{} tokens</source>
        <translation>{} Token</translation>
    </message>
    <message>
        <source>{} more token</source>
        <translation>{} weiteres Token</translation>
    </message>
    <message>
        <source>{} more tokens</source>
        <translation>{} weitere Token</translation>
    </message>
    <message>
        <source>{} image</source>
        <translation>{} Bild</translation>
    </message>
    <message>
        <source>{} images</source>
        <translation>{} Bilder</translation>
    </message>
    <message>
        <source>{} picture</source>
        <translation>{} Bild</translation>
    </message>
    <message>
        <source>{} pictures</source>
        <translation>{} Bilder</translation>
    </message>
    <message>
        <source>{} checkpoint</source>
        <translation>{} Checkpoint</translation>
    </message>
    <message>
        <source>{} checkpoints</source>
        <translation>{} Checkpoints</translation>
    </message>
    <message>
        <source>{} step</source>
        <translation>{} Schritt</translation>
    </message>
    <message>
        <source>{} steps</source>
        <translation>{} Schritte</translation>
    </message>
    <message>
        <source>{} chat</source>
        <translation>{} Chat</translation>
    </message>
    <message>
        <source>{} chats</source>
        <translation>{} Chats</translation>
    </message>
    <message>
        <source>{} deleted chat</source>
        <translation>{} gelöschter Chat</translation>
    </message>
    <message>
        <source>{} deleted chats</source>
        <translation>{} gelöschte Chats</translation>
    </message>
    <message>
        <source>{} message</source>
        <translation>{} Nachricht</translation>
    </message>
    <message>
        <source>{} messages</source>
        <translation>{} Nachrichten</translation>
    </message>
    <message>
        <source>{} match</source>
        <translation>{} Treffer</translation>
    </message>
    <message>
        <source>{} matches</source>
        <translation>{} Treffer</translation>
    </message>
    <message>
        <source>{} field</source>
        <translation>{} Feld</translation>
    </message>
    <message>
        <source>{} fields</source>
        <translation>{} Felder</translation>
    </message>
    <message>
        <source>{} item</source>
        <translation>{} Eintrag</translation>
    </message>
    <message>
        <source>{} items</source>
        <translation>{} Einträge</translation>
    </message>
    <message>
        <source>{} model</source>
        <translation>{} Modell</translation>
    </message>
    <message>
        <source>{} models</source>
        <translation>{} Modelle</translation>
    </message>
    <message>
        <source>{} page</source>
        <translation>{} Seite</translation>
    </message>
    <message>
        <source>{} pages</source>
        <translation>{} Seiten</translation>
    </message>
    <message>
        <source>{} section</source>
        <translation>{} Abschnitt</translation>
    </message>
    <message>
        <source>{} sections</source>
        <translation>{} Abschnitte</translation>
    </message>
    <message>
        <source>{} document</source>
        <translation>{} Dokument</translation>
    </message>
    <message>
        <source>{} documents</source>
        <translation>{} Dokumente</translation>
    </message>
    <message>
        <source>nothing reused</source>
        <translation>nichts wiederverwendet</translation>
    </message>
    <message>
        <source>the context in use</source>
        <translation>gerade verwendeter Kontext</translation>
    </message>
    <message>
        <source>memory</source>
        <translation>Arbeitsspeicher</translation>
    </message>
    <message>
        <source>disk</source>
        <translation>Festplatte</translation>
    </message>
    <message>
        <source>{place}, up to token {token}</source>
        <translation>{place}, bis Token {token}</translation>
    </message>
    <message>
        <source>all of it was new</source>
        <translation>alles war neu</translation>
    </message>
    <message>
        <source>nothing was read</source>
        <translation>nichts wurde gelesen</translation>
    </message>
    <message>
        <source>Read for the first time from message {message} on (token {token}): {reason}</source>
        <translation>Ab Nachricht {message} (Token {token}) zum ersten Mal gelesen: {reason}</translation>
    </message>
    <message>
        <source>Read again from the beginning (token {token}): {reason}</source>
        <translation>Von Anfang an (Token {token}) neu gelesen: {reason}</translation>
    </message>
    <message>
        <source>Read again from message {message} on (token {token}): {reason}</source>
        <translation>Ab Nachricht {message} (Token {token}) neu gelesen: {reason}</translation>
    </message>
    <message>
        <source>The beginning of the chat has changed: its instructions, its first message, or turns left out.</source>
        <translation>Der Anfang des Chats hat sich geändert: seine Anweisungen, seine erste Nachricht oder weggelassene Beiträge.</translation>
    </message>
    <message>
        <source>It has not been read since the model was loaded, and is not kept on disk.</source>
        <translation>Es wurde nicht gelesen, seit das Modell geladen ist, und liegt nicht auf der Festplatte.</translation>
    </message>
    <message>
        <source>The text has changed from there on.</source>
        <translation>Ab dort hat sich der Text geändert.</translation>
    </message>
    <message>
        <source>The list of tools that it begins with has changed.</source>
        <translation>Die Liste der Werkzeuge am Anfang hat sich geändert.</translation>
    </message>
    <message>
        <source>This reply has not been read in idle time yet.</source>
        <translation>Diese Antwort wurde noch nicht im Leerlauf gelesen.</translation>
    </message>
    <message>
        <source>It was evicted to make room; more checkpoints or a larger memory budget keep more.</source>
        <translation>Es wurde verdrängt, um Platz zu schaffen; mehr Checkpoints oder ein größeres Speicherbudget behalten mehr.</translation>
    </message>
    <message>
        <source>Checkpoints are switched off in the settings.</source>
        <translation>Checkpoints sind in den Einstellungen ausgeschaltet.</translation>
    </message>
    <message>
        <source>The saved state could not be restored.</source>
        <translation>Der gespeicherte Zustand konnte nicht wiederhergestellt werden.</translation>
    </message>
    <message>
        <source>Reading it was faster here than restoring it.</source>
        <translation>Lesen war hier schneller als Wiederherstellen.</translation>
    </message>
    <message>
        <source>{} of {} tokens reused</source>
        <translation>{} von {} Token wiederverwendet</translation>
    </message>
    <message>
        <source>on {}</source>
        <translation>auf {}</translation>
    </message>
    <message>
        <source>{} of {} tokens cached there</source>
        <translation>{} von {} Token dort aus dem Cache</translation>
    </message>
    <message>
        <source>{} tokens sent</source>
        <translation>{} Token gesendet</translation>
    </message>
    <message>
        <source>{} encoded</source>
        <translation>{} verarbeitet</translation>
    </message>
    <message>
        <source>first token {}</source>
        <translation>erstes Token {}</translation>
    </message>
    <message>
        <source>{} tokens a step</source>
        <translation>{} Token je Schritt</translation>
    </message>
    <message>
        <source>{} of {} guesses right</source>
        <translation>{} von {} Vermutungen richtig</translation>
    </message>
    <message>
        <source>{}, {} without a draft</source>
        <translation>{}, {} ohne Vermutung</translation>
    </message>
    <message>
        <source>{} with no right guess</source>
        <translation>{} ohne richtige Vermutung</translation>
    </message>
    <message>
        <source>Not added: that picture is too large.</source>
        <translation>Nicht hinzugefügt: Dieses Bild ist zu groß.</translation>
    </message>
    <message>
        <source>Not added: Waymark can&apos;t read that picture format.</source>
        <translation>Nicht hinzugefügt: Waymark kann dieses Bildformat nicht lesen.</translation>
    </message>
    <message>
        <source>Not added: that is a web address, and Waymark never fetches one. Save the picture first.</source>
        <translation>Nicht hinzugefügt: Das ist eine Webadresse, und Waymark ruft nie eine ab. Speichern Sie das Bild zuerst.</translation>
    </message>
    <message>
        <source>Pasted picture</source>
        <translation>Eingefügtes Bild</translation>
    </message>
    <message>
        <source>Picture, {caption}</source>
        <translation>Bild, {caption}</translation>
    </message>
    <message>
        <source>Picture</source>
        <translation>Bild</translation>
    </message>
    <message>
        <source>Remove this picture</source>
        <translation>Dieses Bild entfernen</translation>
    </message>
    <message>
        <source>Show this picture large</source>
        <translation>Dieses Bild groß zeigen</translation>
    </message>
    <message>
        <source>No preview</source>
        <translation>Keine Vorschau</translation>
    </message>
    <message>
        <source>It is larger than {limit}.</source>
        <translation>Es ist größer als {limit}.</translation>
    </message>
    <message>
        <source>{name} has no text.</source>
        <translation>{name} enthält keinen Text.</translation>
    </message>
    <message>
        <source>{name} has changed.</source>
        <translation>{name} hat sich geändert.</translation>
    </message>
    <message>
        <source>Reading page {page} of {count}</source>
        <translation>Liest Seite {page} von {count}</translation>
    </message>
    <message>
        <source>{name} has more than {limit} characters of text, the limit.</source>
        <translation>{name} hat mehr als {limit} Zeichen Text, die Grenze.</translation>
    </message>
    <message>
        <source>Reading {name} took too long and was stopped.</source>
        <translation>Das Lesen von {name} dauerte zu lange und wurde abgebrochen.</translation>
    </message>
    <message>
        <source>Reading {name} needs more memory than is allowed.</source>
        <translation>{name} braucht zum Lesen mehr Speicher, als erlaubt ist.</translation>
    </message>
    <message>
        <source>{name} can&apos;t be read: the process that reads documents could not be started.</source>
        <translation>{name} kann nicht gelesen werden: Der Prozess zum Lesen von Dokumenten ließ sich nicht starten.</translation>
    </message>
    <message>
        <source>{name} is damaged: reading it failed.</source>
        <translation>{name} ist beschädigt: Das Lesen ist fehlgeschlagen.</translation>
    </message>
    <message>
        <source>{names} is a folder. Add the files inside it.</source>
        <translation>{names} ist ein Ordner. Fügen Sie die Dateien darin hinzu.</translation>
    </message>
    <message>
        <source>{names} are folders. Add the files inside them.</source>
        <translation>{names} sind Ordner. Fügen Sie die Dateien darin hinzu.</translation>
    </message>
    <message>
        <source>{names} is not a file.</source>
        <translation>{names} ist keine Datei.</translation>
    </message>
    <message>
        <source>{names} are not files.</source>
        <translation>{names} sind keine Dateien.</translation>
    </message>
    <message>
        <source>{names} can&apos;t be read ({reason}).</source>
        <translation>{names} kann nicht gelesen werden ({reason}).</translation>
    </message>
    <message>
        <source>{names} is larger than {limit}.</source>
        <translation>{names} ist größer als {limit}.</translation>
    </message>
    <message>
        <source>{names} are larger than {limit}.</source>
        <translation>{names} sind größer als {limit}.</translation>
    </message>
    <message>
        <source>{names} is empty.</source>
        <translation>{names} ist leer.</translation>
    </message>
    <message>
        <source>{names} are empty.</source>
        <translation>{names} sind leer.</translation>
    </message>
    <message>
        <source>{names} is neither a picture nor a document that Waymark can read.</source>
        <translation>{names} ist weder ein Bild noch ein Dokument, das Waymark lesen kann.</translation>
    </message>
    <message>
        <source>{names} are neither pictures nor documents that Waymark can read.</source>
        <translation>{names} sind weder Bilder noch Dokumente, die Waymark lesen kann.</translation>
    </message>
    <message>
        <source>Not added: {reason}</source>
        <translation>Nicht hinzugefügt: {reason}</translation>
    </message>
    <message>
        <source>{name} was not added: {reason}</source>
        <translation>{name} wurde nicht hinzugefügt: {reason}</translation>
    </message>
    <message>
        <source>And {count} more was not added.</source>
        <translation>Und {count} weiteres wurde nicht hinzugefügt.</translation>
    </message>
    <message>
        <source>And {count} more were not added.</source>
        <translation>Und {count} weitere wurden nicht hinzugefügt.</translation>
    </message>
    <message>
        <source>and {count} more</source>
        <translation>und {count} weitere</translation>
    </message>
    <message>
        <source>Previous picture (Left)</source>
        <translation>Voriges Bild (Links)</translation>
    </message>
    <message>
        <source>Next picture (Right)</source>
        <translation>Nächstes Bild (Rechts)</translation>
    </message>
    <message>
        <source>Copy the picture (Ctrl+C)</source>
        <translation>Bild kopieren (Strg+C)</translation>
    </message>
    <message>
        <source>Save the picture as a file (Ctrl+S)</source>
        <translation>Bild als Datei speichern (Strg+S)</translation>
    </message>
    <message>
        <source>Fit the picture into the window (F)</source>
        <translation>Bild ins Fenster einpassen (F)</translation>
    </message>
    <message>
        <source>Show at actual size (1)</source>
        <translation>In Originalgröße zeigen (1)</translation>
    </message>
    <message>
        <source>{place} of {count}</source>
        <translation>{place} von {count}</translation>
    </message>
    <message>
        <source>The engine sent no valid picture.</source>
        <translation>Die Engine hat kein gültiges Bild geschickt.</translation>
    </message>
    <message>
        <source>{width} x {height} pixels, shown reduced, {zoom} %</source>
        <translation>{width} x {height} Pixel, verkleinert gezeigt, {zoom} %</translation>
    </message>
    <message>
        <source>{width} x {height} pixels, {zoom} %</source>
        <translation>{width} x {height} Pixel, {zoom} %</translation>
    </message>
    <message>
        <source>Adding pictures</source>
        <translation>Hinzufügen von Bildern</translation>
    </message>
    <message>
        <source>Adding a pasted picture</source>
        <translation>Hinzufügen eines eingefügten Bildes</translation>
    </message>
    <message>
        <source>Checking pictures again</source>
        <translation>Erneutes Prüfen der Bilder</translation>
    </message>
    <message>
        <source>title</source>
        <translation>Titel</translation>
    </message>
    <message>
        <source>reply</source>
        <translation>Antwort</translation>
    </message>
    <message>
        <source>you</source>
        <translation>Sie</translation>
    </message>
    <message>
        <source>Indexing the chats for search</source>
        <translation>Indizieren der Chats für die Suche</translation>
    </message>
    <message>
        <source>Searching the chats</source>
        <translation>Durchsuchen der Chats</translation>
    </message>
    <message>
        <source>The search index can&apos;t be used: {reason}.</source>
        <translation>Der Suchindex kann nicht verwendet werden: {reason}.</translation>
    </message>
    <message>
        <source>Search all chats</source>
        <translation>Alle Chats durchsuchen</translation>
    </message>
    <message>
        <source>Search all messages</source>
        <translation>Alle Nachrichten durchsuchen</translation>
    </message>
    <message>
        <source>When it was written</source>
        <translation>Wann es geschrieben wurde</translation>
    </message>
    <message>
        <source>Any time</source>
        <translation>Jederzeit</translation>
    </message>
    <message>
        <source>Last 30 days</source>
        <translation>Letzte 30 Tage</translation>
    </message>
    <message>
        <source>Last year</source>
        <translation>Letztes Jahr</translation>
    </message>
    <message>
        <source>The model that wrote it</source>
        <translation>Das Modell, das es geschrieben hat</translation>
    </message>
    <message>
        <source>Any model</source>
        <translation>Jedes Modell</translation>
    </message>
    <message>
        <source>The chat it is in</source>
        <translation>Der Chat, in dem es steht</translation>
    </message>
    <message>
        <source>All chats</source>
        <translation>Alle Chats</translation>
    </message>
    <message>
        <source>This chat</source>
        <translation>Dieser Chat</translation>
    </message>
    <message>
        <source>With pictures</source>
        <translation>Mit Bildern</translation>
    </message>
    <message>
        <source>What was found</source>
        <translation>Was gefunden wurde</translation>
    </message>
    <message>
        <source>The newest {count} matches</source>
        <translation>Die neuesten {count} Treffer</translation>
    </message>
    <message>
        <source>Nothing was found.</source>
        <translation>Nichts gefunden.</translation>
    </message>
    <message>
        <source>{count} older messages are still being indexed.</source>
        <translation>{count} ältere Nachrichten werden noch indiziert.</translation>
    </message>
    <message>
        <source>document</source>
        <translation>Dokument</translation>
    </message>
    <message>
        <source>Requests of programs</source>
        <translation>Anfragen von Programmen</translation>
    </message>
    <message>
        <source>Program</source>
        <translation>Programm</translation>
    </message>
    <message>
        <source>Ignore changes in lines that differ with each request, such as dates</source>
        <translation>Änderungen in Zeilen ignorieren, die bei jeder Anfrage anders sind, etwa Datumsangaben</translation>
    </message>
    <message>
        <source>Load another model of this computer when a program asks for it by name</source>
        <translation>Ein anderes Modell dieses Computers laden, wenn ein Programm es beim Namen nennt</translation>
    </message>
    <message>
        <source>Programs then also decide which model this window uses.</source>
        <translation>Dann bestimmen Programme auch, welches Modell dieses Fenster verwendet.</translation>
    </message>
    <message>
        <source>never</source>
        <translation>nie</translation>
    </message>
    <message>
        <source> minutes</source>
        <translation> Minuten</translation>
    </message>
    <message>
        <source>Unloads the model after this many minutes without requests, from this window or from programs. The next request loads it again, and contexts saved on disk are reused.</source>
        <translation>Entlädt das Modell nach so vielen Minuten ohne Anfragen aus diesem Fenster oder von Programmen. Die nächste Anfrage lädt es wieder, und auf der Festplatte gespeicherte Kontexte werden wiederverwendet.</translation>
    </message>
    <message>
        <source>Sleep after</source>
        <translation>Schlafen nach</translation>
    </message>
    <message>
        <source>Web pages</source>
        <translation>Webseiten</translation>
    </message>
    <message>
        <source>none, or addresses such as https://page.example</source>
        <translation>keine, oder Adressen wie https://seite.example</translation>
    </message>
    <message>
        <source>Pages at these addresses may ask the model from a browser, if they have the key.</source>
        <translation>Seiten mit diesen Adressen dürfen das Modell aus einem Browser fragen, wenn sie den Schlüssel haben.</translation>
    </message>
    <message>
        <source>Request</source>
        <translation>Anfrage</translation>
    </message>
    <message>
        <source>State</source>
        <translation>Zustand</translation>
    </message>
    <message>
        <source>Tokens/s</source>
        <translation>Token/s</translation>
    </message>
    <message>
        <source>What the columns show</source>
        <translation>Was die Spalten zeigen</translation>
    </message>
    <message>
        <source>a program without a name</source>
        <translation>ein Programm ohne Namen</translation>
    </message>
    <message>
        <source>changes ignored: {lines}</source>
        <translation>Änderungen ignoriert: {lines}</translation>
    </message>
    <message>
        <source>Show prompts and replies here</source>
        <translation>Anfragen und Antworten hier zeigen</translation>
    </message>
    <message>
        <source>The texts of the latest 20 requests are kept in memory until you switch this off or the server stops. They are saved nowhere.</source>
        <translation>Die Texte der letzten 20 Anfragen bleiben im Arbeitsspeicher, bis Sie dies ausschalten oder der Server endet. Gespeichert werden sie nirgends.</translation>
    </message>
    <message>
        <source>Prompt and reply</source>
        <translation>Anfrage und Antwort</translation>
    </message>
    <message>
        <source>Nothing was kept of this request: it is still running, was refused or is too old.</source>
        <translation>Von dieser Anfrage ist nichts da: Sie läuft noch, wurde abgelehnt oder ist zu alt.</translation>
    </message>
    <message>
        <source>Select a request to see its text.</source>
        <translation>Wählen Sie eine Anfrage, um ihren Text zu sehen.</translation>
    </message>
    <message>
        <source>Refused: wrong key</source>
        <translation>Abgelehnt: falscher Schlüssel</translation>
    </message>
    <message>
        <source>Refused: from a web page, or under another host name</source>
        <translation>Abgelehnt: von einer Webseite oder unter anderem Hostnamen</translation>
    </message>
    <message>
        <source>Refused: no such address</source>
        <translation>Abgelehnt: keine solche Adresse</translation>
    </message>
    <message>
        <source>Refused: too many wait</source>
        <translation>Abgelehnt: zu viele warten</translation>
    </message>
    <message>
        <source>Ended: no model</source>
        <translation>Beendet: kein Modell</translation>
    </message>
    <message>
        <source>Refused ({status})</source>
        <translation>Abgelehnt ({status})</translation>
    </message>
    <message>
        <source>Waiting</source>
        <translation>Wartet</translation>
    </message>
    <message>
        <source>Reading</source>
        <translation>Liest</translation>
    </message>
    <message>
        <source>Writing</source>
        <translation>Schreibt</translation>
    </message>
    <message>
        <source>Cancelled by the program</source>
        <translation>Vom Programm abgebrochen</translation>
    </message>
    <message>
        <source>Off. No program can connect.</source>
        <translation>Aus. Kein Programm kann sich verbinden.</translation>
    </message>
    <message>
        <source>Starting…</source>
        <translation>Startet…</translation>
    </message>
    <message>
        <source>On: programs with the key can connect.</source>
        <translation>An: Programme mit dem Schlüssel können sich verbinden.</translation>
    </message>
    <message>
        <source>{file} could not be deleted: {reason}.</source>
        <translation>{file} konnte nicht gelöscht werden: {reason}.</translation>
    </message>
    <message>
        <source>Starting the local server</source>
        <translation>Starten des lokalen Servers</translation>
    </message>
    <message>
        <source>Local server</source>
        <translation>Lokaler Server</translation>
    </message>
    <message>
        <source>Connect a program</source>
        <translation>Programm verbinden</translation>
    </message>
    <message>
        <source>Requests</source>
        <translation>Anfragen</translation>
    </message>
    <message>
        <source>YOUR-KEY</source>
        <translation>IHR-SCHLÜSSEL</translation>
    </message>
    <message>
        <source>Let programs on this computer use the model</source>
        <translation>Programme auf diesem Computer dürfen das Modell verwenden</translation>
    </message>
    <message>
        <source>Copy the address</source>
        <translation>Adresse kopieren</translation>
    </message>
    <message>
        <source>Port</source>
        <translation>Port</translation>
    </message>
    <message>
        <source>Copy the key</source>
        <translation>Schlüssel kopieren</translation>
    </message>
    <message>
        <source>New key</source>
        <translation>Neuer Schlüssel</translation>
    </message>
    <message>
        <source>Also let other computers in this network use it</source>
        <translation>Auch andere Computer in diesem Netzwerk dürfen es verwenden</translation>
    </message>
    <message>
        <source>Other computers reach this one at its address in the network. Anyone who has the key can use the model. Nothing is encrypted: others in the network can read requests and replies.</source>
        <translation>Andere Computer erreichen diesen unter seiner Adresse im Netzwerk. Wer den Schlüssel hat, kann das Modell verwenden. Nichts ist verschlüsselt: Andere im Netzwerk können Anfragen und Antworten lesen.</translation>
    </message>
    <message>
        <source>Servers</source>
        <translation>Server</translation>
    </message>
    <message>
        <source>Address</source>
        <translation>Adresse</translation>
    </message>
    <message>
        <source>https://host or host:8000</source>
        <translation>https://Host oder Host:8000</translation>
    </message>
    <message>
        <source>Key</source>
        <translation>Schlüssel</translation>
    </message>
    <message>
        <source>if the server asks for one</source>
        <translation>falls der Server einen verlangt</translation>
    </message>
    <message>
        <source>Connect</source>
        <translation>Verbinden</translation>
    </message>
    <message>
        <source>Models on servers</source>
        <translation>Modelle auf Servern</translation>
    </message>
    <message>
        <source>Remove the server</source>
        <translation>Server entfernen</translation>
    </message>
    <message>
        <source>Use for this chat</source>
        <translation>Für diesen Chat verwenden</translation>
    </message>
    <message>
        <source>Enter the key of {host} again.</source>
        <translation>Geben Sie den Schlüssel von {host} noch einmal ein.</translation>
    </message>
    <message>
        <source>A server that speaks OpenAI&apos;s protocol: vLLM, SGLang, llama.cpp, Ollama, LM Studio, another Waymark. Waymark connects to it when you press Connect, and for replies in chats that run there. No chat is sent anywhere before you agree.</source>
        <translation>Ein Server, der OpenAIs Protokoll spricht: vLLM, SGLang, llama.cpp, Ollama, LM Studio, ein anderes Waymark. Waymark verbindet sich, wenn Sie „Verbinden“ drücken, und für Antworten in Chats, die dort laufen. Kein Chat wird gesendet, bevor Sie zustimmen.</translation>
    </message>
    <message>
        <source>{host} and its key are removed. Chats that ran there stay here.</source>
        <translation>{host} und sein Schlüssel werden entfernt. Chats, die dort liefen, bleiben hier.</translation>
    </message>
    <message>
        <source>Connecting…</source>
        <translation>Verbindet…</translation>
    </message>
    <message>
        <source>Connecting to a server</source>
        <translation>Verbinden mit einem Server</translation>
    </message>
    <message>
        <source>Not encrypted: on the way to this server, others in the network can read the key and all that is sent.</source>
        <translation>Nicht verschlüsselt: Auf dem Weg zu diesem Server können andere im Netzwerk den Schlüssel und alles Gesendete lesen.</translation>
    </message>
    <message>
        <source>sees pictures</source>
        <translation>sieht Bilder</translation>
    </message>
    <message>
        <source>{host} answers, but lists no models.</source>
        <translation>{host} antwortet, nennt aber keine Modelle.</translation>
    </message>
    <message>
        <source>{host} answers with {models}.</source>
        <translation>{host} antwortet mit {models}.</translation>
    </message>
    <message>
        <source>Its key is in the system&apos;s keyring.</source>
        <translation>Sein Schlüssel ist im Schlüsselbund des Systems.</translation>
    </message>
    <message>
        <source>There is no keyring here, so its key is kept until you quit.</source>
        <translation>Hier gibt es keinen Schlüsselbund; sein Schlüssel bleibt, bis Sie beenden.</translation>
    </message>
    <message>
        <source>There is a key. Only its digest is stored, so it can&apos;t be shown again; a new key replaces it.</source>
        <translation>Es gibt einen Schlüssel. Gespeichert ist nur seine Prüfsumme, deshalb lässt er sich nicht mehr anzeigen; ein neuer ersetzt ihn.</translation>
    </message>
    <message>
        <source>Made when you first switch the server on.</source>
        <translation>Wird erzeugt, wenn Sie den Server zum ersten Mal einschalten.</translation>
    </message>
    <message>
        <source>Text to paste</source>
        <translation>Text zum Einfügen</translation>
    </message>
    <message>
        <source>Copy this text</source>
        <translation>Diesen Text kopieren</translation>
    </message>
    <message>
        <source>MODEL</source>
        <translation>MODELL</translation>
    </message>
    <message>
        <source>Base URL: {url}
API key: {key}
Model: {model}</source>
        <translation>Basis-URL: {url}
API-Schlüssel: {key}
Modell: {model}</translation>
    </message>
    <message>
        <source>Into settings.json; enter the key {key} in Zed&apos;s settings of the provider.</source>
        <translation>In settings.json; geben Sie den Schlüssel {key} in Zeds Einstellungen des Anbieters ein.</translation>
    </message>
    <message>
        <source>Into ~/.continue/config.yaml, below models.</source>
        <translation>In ~/.continue/config.yaml, unter models.</translation>
    </message>
    <message>
        <source>Into Cline&apos;s settings, with OpenAI Compatible as the provider.</source>
        <translation>In Clines Einstellungen, mit OpenAI Compatible als Anbieter.</translation>
    </message>
    <message>
        <source>Into a terminal.</source>
        <translation>In ein Terminal.</translation>
    </message>
    <message>
        <source>Into ~/.codex/config.toml; run it with the key in WAYMARK_API_KEY.</source>
        <translation>In ~/.codex/config.toml; starten Sie es mit dem Schlüssel in WAYMARK_API_KEY.</translation>
    </message>
    <message>
        <source>Into its connections, as an OpenAI API.</source>
        <translation>In die Verbindungen, als OpenAI-API.</translation>
    </message>
    <message>
        <source>graphics memory</source>
        <translation>Grafikspeicher</translation>
    </message>
    <message>
        <source>{size} of {place} is too small: a context of {tokens} tokens alone takes {least}. Allow at least that, or load the model with a shorter context.</source>
        <translation>{size} {place} ist zu wenig: Ein Kontext von {tokens} Token allein braucht {least}. Erlauben Sie mindestens das, oder laden Sie das Modell mit einem kürzeren Kontext.</translation>
    </message>
    <message>
        <source>{size} is more than this computer has: {most} of {place}.</source>
        <translation>{size} ist mehr, als dieser Computer hat: {most} {place}.</translation>
    </message>
    <message>
        <source>The cost is known once a model is loaded.</source>
        <translation>Der Bedarf ist bekannt, sobald ein Modell geladen ist.</translation>
    </message>
    <message>
        <source>Switched off: every turn reads the whole chat again.</source>
        <translation>Ausgeschaltet: Jeder Beitrag liest den ganzen Chat neu.</translation>
    </message>
    <message>
        <source>{checkpoints} of one chat: up to {total}.</source>
        <translation>{checkpoints} eines Chats: bis zu {total}.</translation>
    </message>
    <message>
        <source>{checkpoints}: up to {total}.</source>
        <translation>{checkpoints}: bis zu {total}.</translation>
    </message>
    <message>
        <source>{checkpoints}: up to {total} ({each} each).</source>
        <translation>{checkpoints}: bis zu {total} (je {each}).</translation>
    </message>
    <message>
        <source>The memory budget has room for {} of them.</source>
        <translation>Im Speicherbudget ist Platz für {} davon.</translation>
    </message>
    <message>
        <source>No effect while checkpoints are switched off.</source>
        <translation>Ohne Wirkung, solange Checkpoints ausgeschaltet sind.</translation>
    </message>
    <message>
        <source>Inside a long message, at most {} tokens are read again.</source>
        <translation>Innerhalb einer langen Nachricht werden höchstens {} Token neu gelesen.</translation>
    </message>
    <message>
        <source>Room for {}.</source>
        <translation>Platz für {}.</translation>
    </message>
    <message>
        <source>Room for a full context of {tokens} tokens ({size}), and also for {more}.</source>
        <translation>Platz für einen vollen Kontext von {tokens} Token ({size}) und außerdem für {more}.</translation>
    </message>
    <message>
        <source>Room for a full context of {tokens} tokens ({size}) only.</source>
        <translation>Platz nur für einen vollen Kontext von {tokens} Token ({size}).</translation>
    </message>
    <message>
        <source>Room for {} of context.</source>
        <translation>Platz für {} Kontext.</translation>
    </message>
    <message>
        <source>Nothing is saved on disk: after a restart, chats are read again.</source>
        <translation>Nichts wird auf der Festplatte gespeichert: Nach einem Neustart werden Chats neu gelesen.</translation>
    </message>
    <message>
        <source>Room for {}, for all chats together.</source>
        <translation>Platz für {}, für alle Chats zusammen.</translation>
    </message>
    <message>
        <source>Room for {held}, or {checkpoints} on disk, for all chats together.</source>
        <translation>Platz für {held} oder {checkpoints} auf der Festplatte, für alle Chats zusammen.</translation>
    </message>
    <message>
        <source>No quantised weights are saved.</source>
        <translation>Keine quantisierten Gewichte werden gespeichert.</translation>
    </message>
    <message>
        <source>{} saved, for all models.</source>
        <translation>{} gespeichert, für alle Modelle.</translation>
    </message>
    <message>
        <source>{} or {}</source>
        <translation>{} oder {}</translation>
    </message>
    <message>
        <source>{} and {}</source>
        <translation>{} und {}</translation>
    </message>
    <message>
        <source>all {} and {}</source>
        <translation>alle {} und {}</translation>
    </message>
    <message>
        <source>{} of saved context</source>
        <translation>{} gespeicherter Kontext</translation>
    </message>
    <message>
        <source>This model has no recurrent state, so it needs no checkpoints.</source>
        <translation>Dieses Modell hat keinen rekurrenten Zustand und braucht daher keine Checkpoints.</translation>
    </message>
    <message>
        <source>Model folder</source>
        <translation>Modellordner</translation>
    </message>
    <message>
        <source>Cancel loading</source>
        <translation>Laden abbrechen</translation>
    </message>
    <message>
        <source>Load the model</source>
        <translation>Modell laden</translation>
    </message>
    <message>
        <source>Loading was cancelled.</source>
        <translation>Das Laden wurde abgebrochen.</translation>
    </message>
    <message>
        <source>Speculative decoding is off: it needs another precision or device.</source>
        <translation>Spekulatives Decodieren ist aus: Es braucht eine andere Genauigkeit oder ein anderes Gerät.</translation>
    </message>
    <message>
        <source>{family}, {parameters} parameters, {reads}. {device}, {precision}; context {length} of {own} tokens, {each} per token.</source>
        <translation>{family}, {parameters} Parameter, {reads}. {device}, {precision}; Kontext {length} von {own} Token, {each} je Token.</translation>
    </message>
    <message>
        <source>&apos;{given}&apos; could be read in more than one way. Write numbers like {example}. The setting was not changed.</source>
        <translation>„{given}“ lässt sich auf mehr als eine Art lesen. Schreiben Sie Zahlen wie {example}. Die Einstellung wurde nicht geändert.</translation>
    </message>
    <message>
        <source>Model default</source>
        <translation>Standard des Modells</translation>
    </message>
    <message>
        <source>&apos;{given}&apos; is not a number: {title} takes {bounds}. The setting was not changed.</source>
        <translation>„{given}“ ist keine Zahl: {title} erlaubt {bounds}. Die Einstellung wurde nicht geändert.</translation>
    </message>
    <message>
        <source>Rounded up to {}, a multiple of {}.</source>
        <translation>Aufgerundet auf {}, ein Vielfaches von {}.</translation>
    </message>
    <message>
        <source>Custom</source>
        <translation>Eigener Wert</translation>
    </message>
    <message>
        <source>Save nothing on disk</source>
        <translation>Nichts auf der Festplatte speichern</translation>
    </message>
    <message>
        <source>{} budget</source>
        <translation>Budget: {}</translation>
    </message>
    <message>
        <source>{} budget in GB or MB</source>
        <translation>Budget in GB oder MB: {}</translation>
    </message>
    <message>
        <source>Automatic</source>
        <translation>Automatisch</translation>
    </message>
    <message>
        <source>Automatic: {}</source>
        <translation>Automatisch: {}</translation>
    </message>
    <message>
        <source>&apos;{given}&apos; is not a size. Write it like {example} GB or 700 MB.</source>
        <translation>„{given}“ ist keine Größe. Schreiben Sie sie wie {example} GB oder 700 MB.</translation>
    </message>
    <message>
        <source>{} or more</source>
        <translation>{} oder mehr</translation>
    </message>
    <message>
        <source>{} to {}</source>
        <translation>{} bis {}</translation>
    </message>
    <message>
        <source>In the background</source>
        <translation>Im Hintergrund</translation>
    </message>
    <message>
        <source>Device</source>
        <translation>Gerät</translation>
    </message>
    <message>
        <source>The device that runs the model. Automatic uses a graphics card if there is one.</source>
        <translation>Das Gerät, auf dem das Modell läuft. Automatisch verwendet eine Grafikkarte, wenn es eine gibt.</translation>
    </message>
    <message>
        <source>GPU CUDA VRAM CPU hardware accelerator offload</source>
        <translation>GPU CUDA VRAM CPU Hardware Beschleuniger Grafikkarte</translation>
    </message>
    <message>
        <source>Processor (CPU)</source>
        <translation>Prozessor (CPU)</translation>
    </message>
    <message>
        <source>Graphics card (CUDA)</source>
        <translation>Grafikkarte (CUDA)</translation>
    </message>
    <message>
        <source>On a processor, Automatic runs GGUF, NVFP4 and MXFP4 files as published, and other models in bfloat16 or float32, whichever is faster here. If memory is short, it uses int8 or int4: they take half and a third of the memory of bfloat16. Both reply faster, and differently.</source>
        <translation>Auf einem Prozessor führt Automatisch Dateien in GGUF, NVFP4 und MXFP4 wie veröffentlicht aus und andere Modelle in bfloat16 oder float32, je nachdem, was hier schneller ist. Ist der Speicher knapp, verwendet es int8 oder int4: Sie brauchen die Hälfte und ein Drittel des Speichers von bfloat16. Beide antworten schneller, und anders.</translation>
    </message>
    <message>
        <source>quantisation quantization bits dtype float16 bfloat16 float32 GGUF Q4_K_M</source>
        <translation>Quantisierung Bits dtype float16 bfloat16 float32 GGUF Q4_K_M</translation>
    </message>
    <message>
        <source>As published (GGUF, NVFP4, MXFP4)</source>
        <translation>Wie veröffentlicht (GGUF, NVFP4, MXFP4)</translation>
    </message>
    <message>
        <source>int8, half the memory</source>
        <translation>int8, die Hälfte des Speichers</translation>
    </message>
    <message>
        <source>int4, a third of the memory</source>
        <translation>int4, ein Drittel des Speichers</translation>
    </message>
    <message>
        <source>Context length</source>
        <translation>Kontextlänge</translation>
    </message>
    <message>
        <source>How many tokens a chat can hold. If empty, the model&apos;s own limit, or as many as memory allows.</source>
        <translation>Wie viele Token ein Chat fasst. Leer: die Grenze des Modells, oder so viele, wie der Speicher erlaubt.</translation>
    </message>
    <message>
        <source>n_ctx num_ctx window size</source>
        <translation>n_ctx num_ctx Fenster Größe</translation>
    </message>
    <message>
        <source>Image detail</source>
        <translation>Bilddetails</translation>
    </message>
    <message>
        <source>How many tokens one picture may take, within the model&apos;s own limit. Automatic is {} on a CPU and {} on a graphics card.</source>
        <translation>Wie viele Token ein Bild belegen darf, innerhalb der Grenze des Modells. Automatisch sind es {} auf einem Prozessor und {} auf einer Grafikkarte.</translation>
    </message>
    <message>
        <source>resolution vision picture pixels</source>
        <translation>Auflösung Bild Pixel vision</translation>
    </message>
    <message>
        <source>Only the model&apos;s own limit</source>
        <translation>Nur die Grenze des Modells</translation>
    </message>
    <message>
        <source>How many saved states are kept in memory for the model to resume from; 0 keeps none.</source>
        <translation>Wie viele gespeicherte Zustände, von denen aus das Modell weiterlesen kann, im Arbeitsspeicher bleiben; 0 behält keine.</translation>
    </message>
    <message>
        <source>snapshots KV cache prompt cache</source>
        <translation>Schnappschüsse KV-Cache Prompt-Cache</translation>
    </message>
    <message>
        <source>Interval</source>
        <translation>Abstand</translation>
    </message>
    <message>
        <source>Tokens between checkpoints inside a long message, rounded up to a multiple of {}. There is always one at the end of a message and at the edges of a picture.</source>
        <translation>Token zwischen Checkpoints innerhalb einer langen Nachricht, aufgerundet auf ein Vielfaches von {}. Am Ende einer Nachricht und an den Rändern eines Bildes ist immer einer.</translation>
    </message>
    <message>
        <source>How much of this computer&apos;s memory contexts, checkpoints and pictures may take.</source>
        <translation>Wie viel Arbeitsspeicher dieses Computers Kontexte, Checkpoints und Bilder belegen dürfen.</translation>
    </message>
    <message>
        <source>RAM KV cache budget limit</source>
        <translation>RAM KV-Cache Budget Grenze</translation>
    </message>
    <message>
        <source>How much graphics memory the context in use may take.</source>
        <translation>Wie viel Grafikspeicher der gerade verwendete Kontext belegen darf.</translation>
    </message>
    <message>
        <source>GPU VRAM KV cache budget limit</source>
        <translation>GPU VRAM KV-Cache Budget Grenze</translation>
    </message>
    <message>
        <source>How much disk space saved contexts may take. Chats resume from them after a restart.</source>
        <translation>Wie viel Platz auf der Festplatte gespeicherte Kontexte belegen dürfen. Aus ihnen werden Chats nach einem Neustart fortgesetzt.</translation>
    </message>
    <message>
        <source>storage SSD KV cache budget limit</source>
        <translation>Speicher SSD KV-Cache Budget Grenze</translation>
    </message>
    <message>
        <source>Quantised weights</source>
        <translation>Quantisierte Gewichte</translation>
    </message>
    <message>
        <source>How much disk space weights quantised to int8 or int4 may take. With them, a model loads faster the next time. Takes effect when you press Load.</source>
        <translation>Wie viel Platz auf der Festplatte in int8 oder int4 quantisierte Gewichte belegen dürfen. Mit ihnen lädt ein Modell beim nächsten Mal schneller. Gilt, sobald Sie „Laden“ drücken.</translation>
    </message>
    <message>
        <source>quantisation quantization storage cache SSD budget limit</source>
        <translation>Quantisierung Speicher Cache SSD Budget Grenze</translation>
    </message>
    <message>
        <source>Read replies in idle time</source>
        <translation>Antworten im Leerlauf lesen</translation>
    </message>
    <message>
        <source>Finished replies and opened chats are read while the computer is idle, so the next turn reads only your message. If off, the reply is read with your next message.</source>
        <translation>Fertige Antworten und geöffnete Chats werden im Leerlauf gelesen, sodass der nächste Beitrag nur Ihre Nachricht liest. Sonst wird die Antwort mit Ihrer nächsten Nachricht gelesen.</translation>
    </message>
    <message>
        <source>prefill background</source>
        <translation>Prefill Hintergrund</translation>
    </message>
    <message>
        <source>Read pictures ahead</source>
        <translation>Bilder vorab lesen</translation>
    </message>
    <message>
        <source>Pictures in your draft are read while you type; that work is lost if you remove a picture. If off, the picture is read after you press Send.</source>
        <translation>Bilder in Ihrem Entwurf werden gelesen, während Sie tippen; diese Arbeit ist verloren, wenn Sie ein Bild entfernen. Sonst wird das Bild erst nach dem Senden gelesen.</translation>
    </message>
    <message>
        <source>prefill background images draft</source>
        <translation>Prefill Hintergrund Bilder Entwurf</translation>
    </message>
    <message>
        <source>Thinking</source>
        <translation>Nachdenken</translation>
    </message>
    <message>
        <source>Reason before the reply, if the model can reply with and without reasoning.</source>
        <translation>Vor der Antwort nachdenken, falls das Modell beides kann.</translation>
    </message>
    <message>
        <source>reasoning chain of thought</source>
        <translation>Reasoning Gedankengang Überlegungen</translation>
    </message>
    <message>
        <source>On</source>
        <translation>An</translation>
    </message>
    <message>
        <source>Off</source>
        <translation>Aus</translation>
    </message>
    <message>
        <source>Temperature</source>
        <translation>Temperatur</translation>
    </message>
    <message>
        <source>Higher values make replies more varied; 0 always chooses the most likely token.</source>
        <translation>Höhere Werte machen Antworten abwechslungsreicher; 0 wählt immer das wahrscheinlichste Token.</translation>
    </message>
    <message>
        <source>creativity randomness sampling</source>
        <translation>Kreativität Zufall Sampling</translation>
    </message>
    <message>
        <source>Top k</source>
        <translation>Top k</translation>
    </message>
    <message>
        <source>Choose only among this many of the most likely tokens; 0 for no limit.</source>
        <translation>Nur unter so vielen der wahrscheinlichsten Token wählen; 0 für keine Grenze.</translation>
    </message>
    <message>
        <source>sampling</source>
        <translation>Sampling</translation>
    </message>
    <message>
        <source>Top p</source>
        <translation>Top p</translation>
    </message>
    <message>
        <source>Choose only among the most likely tokens that together have this probability.</source>
        <translation>Nur unter den wahrscheinlichsten Token wählen, die zusammen diese Wahrscheinlichkeit haben.</translation>
    </message>
    <message>
        <source>nucleus sampling</source>
        <translation>Nucleus Sampling</translation>
    </message>
    <message>
        <source>Min p</source>
        <translation>Min p</translation>
    </message>
    <message>
        <source>Leave out tokens below this share of the most likely token&apos;s probability.</source>
        <translation>Token weglassen, deren Wahrscheinlichkeit unter diesem Anteil der höchsten liegt.</translation>
    </message>
    <message>
        <source>Repetition penalty</source>
        <translation>Wiederholungsstrafe</translation>
    </message>
    <message>
        <source>Above 1, tokens already in the prompt or the reply become less likely.</source>
        <translation>Über 1 werden Token, die schon im Prompt oder in der Antwort stehen, unwahrscheinlicher.</translation>
    </message>
    <message>
        <source>repeat sampling</source>
        <translation>Wiederholung Sampling</translation>
    </message>
    <message>
        <source>Presence penalty</source>
        <translation>Präsenzstrafe</translation>
    </message>
    <message>
        <source>Above 0, tokens already in the reply become less likely.</source>
        <translation>Über 0 werden Token, die schon in der Antwort stehen, unwahrscheinlicher.</translation>
    </message>
    <message>
        <source>Frequency penalty</source>
        <translation>Häufigkeitsstrafe</translation>
    </message>
    <message>
        <source>Above 0, tokens become less likely the more often they occur in the reply.</source>
        <translation>Über 0 werden Token umso unwahrscheinlicher, je öfter sie in der Antwort stehen.</translation>
    </message>
    <message>
        <source>Seed</source>
        <translation>Startwert</translation>
    </message>
    <message>
        <source>The same seed gives the same reply again. If empty, each reply has a new one.</source>
        <translation>Derselbe Startwert ergibt wieder dieselbe Antwort. Leer: Jede Antwort hat einen neuen.</translation>
    </message>
    <message>
        <source>random reproducible deterministic sampling</source>
        <translation>Zufall reproduzierbar deterministisch Seed Sampling</translation>
    </message>
    <message>
        <source>Longest reply</source>
        <translation>Längste Antwort</translation>
    </message>
    <message>
        <source>The reply is cut off after this many tokens. If empty, the limit is the context length, {} tokens for structured output, and {} for reasoning.</source>
        <translation>Nach so vielen Token wird die Antwort abgeschnitten. Leer: Grenze ist die Kontextlänge, {} Token für strukturierte Antworten und {} für Nachdenken.</translation>
    </message>
    <message>
        <source>max tokens n_predict output limit length</source>
        <translation>max tokens n_predict Ausgabe Grenze Länge</translation>
    </message>
    <message>
        <source>Stop strings</source>
        <translation>Stopptexte</translation>
    </message>
    <message>
        <source>The reply ends before one of these texts, one on each line. Write \n for a line break.</source>
        <translation>Die Antwort endet vor einem dieser Texte, einer in jeder Zeile. Für einen Zeilenumbruch schreiben Sie \n.</translation>
    </message>
    <message>
        <source>stop sequences end reply</source>
        <translation>Stoppsequenzen Ende Antwort</translation>
    </message>
    <message>
        <source>Speculative decoding</source>
        <translation>Spekulatives Decodieren</translation>
    </message>
    <message>
        <source>Guesses several tokens and checks them in one step. Same reply, often faster. Guesses come from earlier text of the chat, or from a part of the model made for it (an MTP head). With Automatic, it guesses only where that saves time.</source>
        <translation>Vermutet mehrere Token und prüft sie in einem Schritt. Dieselbe Antwort, oft schneller. Vermutungen kommen aus früherem Text des Chats oder aus einem dafür gemachten Teil des Modells (einem MTP-Kopf). Mit Automatisch wird nur vermutet, wo es Zeit spart.</translation>
    </message>
    <message>
        <source>several tokens at once speculation drafts MTP</source>
        <translation>mehrere Token auf einmal Spekulation MTP</translation>
    </message>
    <message>
        <source>From the chat</source>
        <translation>Aus dem Chat</translation>
    </message>
    <message>
        <source>From the model&apos;s MTP head</source>
        <translation>Aus dem MTP-Kopf des Modells</translation>
    </message>
    <message>
        <source>Both</source>
        <translation>Beides</translation>
    </message>
    <message>
        <source>Titles by the model</source>
        <translation>Titel vom Modell</translation>
    </message>
    <message>
        <source>After the first reply of a chat, the model writes its title while the computer is idle. If off, the title is the first words of the chat. A title that you gave stays.</source>
        <translation>Nach der ersten Antwort eines Chats schreibt das Modell im Leerlauf den Titel. Sonst besteht der Titel aus den ersten Wörtern des Chats. Ein Titel, den Sie gegeben haben, bleibt.</translation>
    </message>
    <message>
        <source>name chats automatic</source>
        <translation>Chats benennen automatisch Name</translation>
    </message>
    <message>
        <source>Notify when a reply is finished</source>
        <translation>Fertige Antworten melden</translation>
    </message>
    <message>
        <source>If another window is in front, a notification shows the chat&apos;s title. Needs an icon in the tray.</source>
        <translation>Ist ein anderes Fenster vorn, zeigt eine Benachrichtigung den Titel des Chats. Braucht ein Symbol im Infobereich.</translation>
    </message>
    <message>
        <source>notification tray alert</source>
        <translation>Benachrichtigung Infobereich Meldung Hinweis</translation>
    </message>
    <message>
        <source>While a reply is written or a model downloaded, Waymark can go on as an icon in the tray, or stop and quit.</source>
        <translation>Während eine Antwort geschrieben oder ein Modell heruntergeladen wird, kann Waymark als Symbol im Infobereich weiterarbeiten oder aufhören und sich beenden.</translation>
    </message>
    <message>
        <source>tray quit exit minimise minimize</source>
        <translation>Infobereich beenden schließen minimieren</translation>
    </message>
    <message>
        <source>Ask</source>
        <translation>Fragen</translation>
    </message>
    <message>
        <source>Stay awake during work</source>
        <translation>Während der Arbeit wach bleiben</translation>
    </message>
    <message>
        <source>The computer doesn&apos;t go to sleep by itself while a reply is written or a model downloaded, for twelve hours at most. The screen may still turn off.</source>
        <translation>Der Computer geht nicht von selbst in den Ruhezustand, während eine Antwort geschrieben oder ein Modell heruntergeladen wird, höchstens zwölf Stunden lang. Der Bildschirm kann sich trotzdem ausschalten.</translation>
    </message>
    <message>
        <source>sleep suspend standby power energy</source>
        <translation>Ruhezustand Standby Energie Strom schlafen</translation>
    </message>
    <message>
        <source>Theme</source>
        <translation>Erscheinungsbild</translation>
    </message>
    <message>
        <source>Light, dark, or the same as the system.</source>
        <translation>Hell, dunkel oder wie das System.</translation>
    </message>
    <message>
        <source>dark mode night colours colors appearance</source>
        <translation>Dunkelmodus Nacht Farben Aussehen</translation>
    </message>
    <message>
        <source>System</source>
        <translation>System</translation>
    </message>
    <message>
        <source>Light</source>
        <translation>Hell</translation>
    </message>
    <message>
        <source>Dark</source>
        <translation>Dunkel</translation>
    </message>
    <message>
        <source>Text size</source>
        <translation>Textgröße</translation>
    </message>
    <message>
        <source>The size of all text in this window.</source>
        <translation>Die Größe aller Texte in diesem Fenster.</translation>
    </message>
    <message>
        <source>font size zoom scale letters</source>
        <translation>Schriftgröße Zoom Buchstaben</translation>
    </message>
    <message>
        <source>100 % (default)</source>
        <translation>100 % (Standard)</translation>
    </message>
    <message>
        <source>Closing the window during work</source>
        <translation>Schließen während der Arbeit</translation>
    </message>
    <message>
        <source>Language</source>
        <translation>Sprache</translation>
    </message>
    <message>
        <source>The language of this window. Takes effect when Waymark starts again.</source>
        <translation>Die Sprache dieses Fensters. Gilt, wenn Waymark neu gestartet wird.</translation>
    </message>
    <message>
        <source>Format your messages</source>
        <translation>Eigene Nachrichten formatieren</translation>
    </message>
    <message>
        <source>Show Markdown in your own messages as in replies. If off, they are shown as typed.</source>
        <translation>Markdown auch in Ihren eigenen Nachrichten anzeigen. Sonst erscheinen sie wie getippt.</translation>
    </message>
    <message>
        <source>For all chats. Takes effect when you press Load.</source>
        <translation>Für alle Chats. Gilt, sobald Sie „Laden“ drücken.</translation>
    </message>
    <message>
        <source>For all chats together, from the next message on.</source>
        <translation>Für alle Chats zusammen, ab der nächsten Nachricht.</translation>
    </message>
    <message>
        <source>For all chats, from the next message on.</source>
        <translation>Für alle Chats, ab der nächsten Nachricht.</translation>
    </message>
    <message>
        <source>Appearance</source>
        <translation>Darstellung</translation>
    </message>
    <message>
        <source>For this window. Takes effect at once.</source>
        <translation>Für dieses Fenster. Gilt sofort.</translation>
    </message>
    <message>
        <source>The budget was not changed.</source>
        <translation>Das Budget wurde nicht geändert.</translation>
    </message>
    <message>
        <source>{} is more than this model can hold: its context has at most {} tokens. The setting was not changed.</source>
        <translation>{} ist mehr, als dieses Modell fasst: Sein Kontext hat höchstens {} Token. Die Einstellung wurde nicht geändert.</translation>
    </message>
    <message>
        <source>{given} is out of range: {title} takes {bounds}. The setting was not changed.</source>
        <translation>{given} liegt außerhalb der Grenzen: {title} erlaubt {bounds}. Die Einstellung wurde nicht geändert.</translation>
    </message>
    <message>
        <source>The settings could not be saved: {}.</source>
        <translation>Die Einstellungen konnten nicht gespeichert werden: {}.</translation>
    </message>
    <message>
        <source>The system prompt. Each chat has its own.</source>
        <translation>Der Systemprompt. Jeder Chat hat seinen eigenen.</translation>
    </message>
    <message>
        <source>Search settings</source>
        <translation>Einstellungen durchsuchen</translation>
    </message>
    <message>
        <source>No setting matches.</source>
        <translation>Keine Einstellung passt.</translation>
    </message>
    <message>
        <source>Restore all defaults</source>
        <translation>Alle Standardwerte wiederherstellen</translation>
    </message>
    <message>
        <source>system prompt persona role instructions</source>
        <translation>Systemprompt Persona Rolle Anweisungen</translation>
    </message>
    <message>
        <source>The model folder and your chats stay as they are.</source>
        <translation>Der Modellordner und Ihre Chats bleiben, wie sie sind.</translation>
    </message>
    <message>
        <source>{}: the defaults are restored.</source>
        <translation>{}: Die Standardwerte sind wiederhergestellt.</translation>
    </message>
    <message>
        <source>All defaults are restored.</source>
        <translation>Alle Standardwerte sind wiederhergestellt.</translation>
    </message>
    <message>
        <source>A new one each time</source>
        <translation>Jedes Mal ein neuer</translation>
    </message>
    <message>
        <source>As long as the context allows</source>
        <translation>So lang, wie der Kontext erlaubt</translation>
    </message>
    <message>
        <source>Model default: {}</source>
        <translation>Standard des Modells: {}</translation>
    </message>
    <message>
        <source>Restore defaults</source>
        <translation>Standardwerte wiederherstellen</translation>
    </message>
    <message>
        <source>Restore the defaults of {}</source>
        <translation>Standardwerte von „{}“ wiederherstellen</translation>
    </message>
    <message>
        <source>Delete saved weights</source>
        <translation>Gespeicherte Gewichte löschen</translation>
    </message>
    <message>
        <source>Delete the quantised weights saved on disk</source>
        <translation>Die auf der Festplatte gespeicherten quantisierten Gewichte löschen</translation>
    </message>
    <message>
        <source>Each model then takes longer to load the next time.</source>
        <translation>Jedes Modell braucht dann beim nächsten Laden länger.</translation>
    </message>
    <message>
        <source>The chosen data folder is not a valid path on this system.</source>
        <translation>Der gewählte Datenordner ist auf diesem System kein gültiger Pfad.</translation>
    </message>
    <message>
        <source>{path} can&apos;t be used: {reason}.</source>
        <translation>{path} kann nicht verwendet werden: {reason}.</translation>
    </message>
    <message>
        <source>{path} can&apos;t be renamed: {reason}.</source>
        <translation>{path} kann nicht umbenannt werden: {reason}.</translation>
    </message>
    <message>
        <source>An unexpected error occurred ({kind}).</source>
        <translation>Ein unerwarteter Fehler ist aufgetreten ({kind}).</translation>
    </message>
    <message>
        <source>If you start with empty chats, the old file stays in its folder under another name; nothing in it is deleted.</source>
        <translation>Wenn Sie ohne Chats beginnen, bleibt die alte Datei unter anderem Namen in ihrem Ordner; nichts darin wird gelöscht.</translation>
    </message>
    <message>
        <source>Start with empty chats</source>
        <translation>Ohne Chats beginnen</translation>
    </message>
    <message>
        <source>Open folder</source>
        <translation>Ordner öffnen</translation>
    </message>
    <message>
        <source>Waymark has started, but there was a problem</source>
        <translation>Waymark ist gestartet, aber es gab ein Problem</translation>
    </message>
    <message>
        <source>{} is not a file. Nothing was changed.</source>
        <translation>{} ist keine Datei. Nichts wurde geändert.</translation>
    </message>
    <message>
        <source>The chats are in format {}; this version can read formats up to {}. Nothing was changed. Please start the newer version of Waymark.</source>
        <translation>Die Chats haben das Format {}; diese Version liest Formate bis {}. Nichts wurde geändert. Bitte starten Sie die neuere Version von Waymark.</translation>
    </message>
    <message>
        <source>{} is a database of another program. Nothing was changed.</source>
        <translation>{} ist die Datenbank eines anderen Programms. Nichts wurde geändert.</translation>
    </message>
    <message>
        <source>The file of chats is damaged, and its readable parts could not be written to a new file: {reason} {path} was not changed.</source>
        <translation>Die Datei mit den Chats ist beschädigt, und ihre lesbaren Teile konnten nicht in eine neue Datei geschrieben werden: {reason} {path} wurde nicht geändert.</translation>
    </message>
    <message>
        <source>The file of chats was missing. {saved}</source>
        <translation>Die Datei mit den Chats fehlte. {saved}</translation>
    </message>
    <message>
        <source>The file of chats was damaged. {saved} The damaged file is kept as {name} until a chat is deleted for good, since it may contain that chat.</source>
        <translation>Die Datei mit den Chats war beschädigt. {saved} Die beschädigte Datei bleibt als {name} erhalten, bis ein Chat endgültig gelöscht wird, denn sie kann ihn enthalten.</translation>
    </message>
    <message>
        <source>Converting the chats from format {old} to {new} failed ({error}). This is a defect of Waymark, not of your chats: they were not changed, and your previous version of Waymark can open them.</source>
        <translation>Das Umwandeln der Chats von Format {old} in {new} ist fehlgeschlagen ({error}). Das ist ein Fehler von Waymark, nicht Ihrer Chats: Sie wurden nicht geändert, und Ihre vorige Version von Waymark kann sie öffnen.</translation>
    </message>
    <message>
        <source>No chat could be read.</source>
        <translation>Kein Chat konnte gelesen werden.</translation>
    </message>
    <message>
        <source>Recovered: {}, {}.</source>
        <translation>Wiederhergestellt: {}, {}.</translation>
    </message>
    <message>
        <source>Unreadable parts were restored from the backup of {}.</source>
        <translation>Unlesbare Teile wurden aus der Sicherung vom {} wiederhergestellt.</translation>
    </message>
    <message>
        <source>Lost, and marked as such in the chats: {}.</source>
        <translation>Verloren und in den Chats so markiert: {}.</translation>
    </message>
    <message>
        <source>As far as is known, nothing is missing.</source>
        <translation>Soweit bekannt, fehlt nichts.</translation>
    </message>
    <message>
        <source>Parts of the file could not be read, so more may be missing.</source>
        <translation>Teile der Datei konnten nicht gelesen werden, daher kann mehr fehlen.</translation>
    </message>
    <message>
        <source>Recovered: {}</source>
        <translation>Wiederhergestellt: {}</translation>
    </message>
    <message>
        <source>Recovered</source>
        <translation>Wiederhergestellt</translation>
    </message>
    <message>
        <source>it is not a file</source>
        <translation>es ist keine Datei</translation>
    </message>
    <message>
        <source>the file is damaged</source>
        <translation>die Datei ist beschädigt</translation>
    </message>
    <message>
        <source>These settings could not be read and were reset to their defaults: {}.</source>
        <translation>Diese Einstellungen konnten nicht gelesen werden und haben wieder ihre Standardwerte: {}.</translation>
    </message>
    <message>
        <source>The settings could not be read ({}); the defaults are used.</source>
        <translation>Die Einstellungen konnten nicht gelesen werden ({}); es gelten die Standardwerte.</translation>
    </message>
    <message>
        <source>The old file is kept as {}.</source>
        <translation>Die alte Datei bleibt als {} erhalten.</translation>
    </message>
    <message>
        <source>A part of the file of chats is damaged. Restart Waymark; it will copy everything it can read to a new file.</source>
        <translation>Ein Teil der Datei mit den Chats ist beschädigt. Starten Sie Waymark neu; es kopiert alles Lesbare in eine neue Datei.</translation>
    </message>
    <message>
        <source>The database reported an error ({}).</source>
        <translation>Die Datenbank meldet einen Fehler ({}).</translation>
    </message>
    <message>
        <source>Another program is using the file.</source>
        <translation>Ein anderes Programm verwendet die Datei.</translation>
    </message>
    <message>
        <source>The disk is full.</source>
        <translation>Die Festplatte ist voll.</translation>
    </message>
    <message>
        <source>The disk can&apos;t be read or written.</source>
        <translation>Die Festplatte kann nicht gelesen oder beschrieben werden.</translation>
    </message>
    <message>
        <source>The file is read-only.</source>
        <translation>Die Datei ist schreibgeschützt.</translation>
    </message>
    <message>
        <source>The system denies access to the file.</source>
        <translation>Das System verweigert den Zugriff auf die Datei.</translation>
    </message>
    <message>
        <source>The file can&apos;t be opened.</source>
        <translation>Die Datei kann nicht geöffnet werden.</translation>
    </message>
    <message>
        <source>GGUF models ({patterns});;All files (*)</source>
        <translation>GGUF-Modelle ({patterns});;Alle Dateien (*)</translation>
    </message>
    <message>
        <source>All files (*);;Pictures ({patterns})</source>
        <translation>Alle Dateien (*);;Bilder ({patterns})</translation>
    </message>
    <message>
        <source>Link</source>
        <translation>Link</translation>
    </message>
    <message>
        <source>The whole address</source>
        <translation>Die ganze Adresse</translation>
    </message>
    <message>
        <source>The model wrote this address. It leads to:</source>
        <translation>Das Modell hat diese Adresse geschrieben. Sie führt zu:</translation>
    </message>
    <message>
        <source>Open in the browser</source>
        <translation>Im Browser öffnen</translation>
    </message>
    <message>
        <source>The model wrote this address, which can&apos;t be opened.</source>
        <translation>Das Modell hat diese Adresse geschrieben; sie kann nicht geöffnet werden.</translation>
    </message>
    <message>
        <source>In letters: {host}. Letters of other alphabets can make one name look like another.</source>
        <translation>In Buchstaben: {host}. Buchstaben anderer Alphabete können einen Namen wie einen anderen aussehen lassen.</translation>
    </message>
    <message>
        <source>Shown in letters, it would contain characters that are invisible or reverse the text: {characters}.</source>
        <translation>In Buchstaben enthielte sie Zeichen, die unsichtbar sind oder den Text umkehren: {characters}.</translation>
    </message>
    <message>
        <source>Copied</source>
        <translation>Kopiert</translation>
    </message>
    <message>
        <source>a message can have {most} characters, and this text has {count}.</source>
        <translation>eine Nachricht kann {most} Zeichen haben, und dieser Text hat {count}.</translation>
    </message>
    <message>
        <source>a message can have {most} lines, and this text has {count}.</source>
        <translation>eine Nachricht kann {most} Zeilen haben, und dieser Text hat {count}.</translation>
    </message>
    <message>
        <source>Close this message</source>
        <translation>Diese Meldung schließen</translation>
    </message>
    <message>
        <source>Clear the search</source>
        <translation>Suche leeren</translation>
    </message>
    <message>
        <source>It is longer than {count} characters.</source>
        <translation>Sie ist länger als {count} Zeichen.</translation>
    </message>
    <message>
        <source>Waymark opens only web addresses (http and https).</source>
        <translation>Waymark öffnet nur Webadressen (http und https).</translation>
    </message>
    <message>
        <source>It has a user name or password before the host, which can disguise where an address leads.</source>
        <translation>Vor dem Host steht ein Benutzername oder Passwort; das kann verbergen, wohin eine Adresse führt.</translation>
    </message>
    <message>
        <source>It is not a complete web address.</source>
        <translation>Es ist keine vollständige Webadresse.</translation>
    </message>
    <message>
        <source>It can be read in more than one way.</source>
        <translation>Sie lässt sich auf mehr als eine Art lesen.</translation>
    </message>
    <message>
        <source>Not opened: {address}
{reason}</source>
        <translation>Nicht geöffnet: {address}
{reason}</translation>
    </message>
    <message>
        <source>Delete all data</source>
        <translation>Alle Daten löschen</translation>
    </message>
    <message>
        <source>Keep everything</source>
        <translation>Alles behalten</translation>
    </message>
    <message>
        <source>Delete everything</source>
        <translation>Alles löschen</translation>
    </message>
    <message>
        <source>Send this chat</source>
        <translation>Diesen Chat senden</translation>
    </message>
    <message>
        <source>Keep it here</source>
        <translation>Hier behalten</translation>
    </message>
    <message>
        <source>Send it there</source>
        <translation>Dorthin senden</translation>
    </message>
    <message>
        <source>Leave everything</source>
        <translation>Alles so lassen</translation>
    </message>
    <message>
        <source>Close and restore</source>
        <translation>Schließen und wiederherstellen</translation>
    </message>
    <message>
        <source>Writing a format</source>
        <translation>Schreiben eines Formats</translation>
    </message>
    <message>
        <source>Send this chat to {host}? From your next message on, all of it is sent there: every message, document, picture and instruction. What has been sent can&apos;t be taken back.</source>
        <translation>Diesen Chat an {host} senden? Ab Ihrer nächsten Nachricht wird alles dorthin gesendet: jede Nachricht, jedes Dokument, jedes Bild und jede Anweisung. Gesendetes lässt sich nicht zurückholen.</translation>
    </message>
    <message>
        <source>The connection isn&apos;t encrypted: others in the network can read it.</source>
        <translation>Die Verbindung ist nicht verschlüsselt: Andere im Netzwerk können sie lesen.</translation>
    </message>
    <message>
        <source>{chats} and {deleted}</source>
        <translation>{chats} und {deleted}</translation>
    </message>
    <message>
        <source>all data</source>
        <translation>alle Daten</translation>
    </message>
    <message>
        <source>Delete {} for good, with all messages, pictures, drafts, backups, damaged files of chats and saved contexts? This can&apos;t be undone. Your settings and models stay.</source>
        <translation>Endgültig löschen: {}, mit allen Nachrichten, Bildern, Entwürfen, Sicherungen, beschädigten Chat-Dateien und gespeicherten Kontexten? Das lässt sich nicht rückgängig machen. Ihre Einstellungen und Modelle bleiben.</translation>
    </message>
    <message>
        <source>Show or hide the chats</source>
        <translation>Chats ein- oder ausblenden</translation>
    </message>
    <message>
        <source>Show or hide settings and context</source>
        <translation>Einstellungen und Kontext ein- oder ausblenden</translation>
    </message>
    <message>
        <source>Start again</source>
        <translation>Neu starten</translation>
    </message>
    <message>
        <source>Start the engine again</source>
        <translation>Engine neu starten</translation>
    </message>
    <message>
        <source>New chat in {folder}</source>
        <translation>Neuer Chat in {folder}</translation>
    </message>
    <message>
        <source>Instructions</source>
        <translation>Anweisungen</translation>
    </message>
    <message>
        <source>Instructions for this chat: given</source>
        <translation>Anweisungen für diesen Chat: vorhanden</translation>
    </message>
    <message>
        <source>All data is deleted.</source>
        <translation>Alle Daten sind gelöscht.</translation>
    </message>
    <message>
        <source>the chat is empty</source>
        <translation>der Chat ist leer</translation>
    </message>
    <message>
        <source>no chat is selected</source>
        <translation>kein Chat ist ausgewählt</translation>
    </message>
    <message>
        <source>no message has another version</source>
        <translation>keine Nachricht hat eine andere Fassung</translation>
    </message>
    <message>
        <source>no reply is being written</source>
        <translation>es wird keine Antwort geschrieben</translation>
    </message>
    <message>
        <source>the chat doesn&apos;t end with a reply</source>
        <translation>der Chat endet nicht mit einer Antwort</translation>
    </message>
    <message>
        <source>Wayland shows programs only their own windows</source>
        <translation>Wayland zeigt Programmen nur ihre eigenen Fenster</translation>
    </message>
    <message>
        <source>no model is loaded</source>
        <translation>kein Modell ist geladen</translation>
    </message>
    <message>
        <source>the engine is starting</source>
        <translation>die Engine startet</translation>
    </message>
    <message>
        <source>Choosing pictures</source>
        <translation>Wählen von Bildern</translation>
    </message>
    <message>
        <source>Add a folder of documents</source>
        <translation>Ordner mit Dokumenten hinzufügen</translation>
    </message>
    <message>
        <source>Adding a part of the screen</source>
        <translation>Hinzufügen eines Ausschnitts des Bildschirms</translation>
    </message>
    <message>
        <source>Part of the screen</source>
        <translation>Ausschnitt des Bildschirms</translation>
    </message>
    <message>
        <source>Choosing a model</source>
        <translation>Wählen eines Modells</translation>
    </message>
    <message>
        <source>Opening a link</source>
        <translation>Öffnen eines Links</translation>
    </message>
    <message>
        <source>Moved to the trash, kept for {days} days: {title}</source>
        <translation>In den Papierkorb verschoben, {days} Tage aufbewahrt: {title}</translation>
    </message>
    <message>
        <source>The messages follow this version now.</source>
        <translation>Die Nachrichten folgen jetzt dieser Fassung.</translation>
    </message>
    <message>
        <source>&amp;Chat</source>
        <translation>&amp;Chat</translation>
    </message>
    <message>
        <source>Add pictures or documents…</source>
        <translation>Bilder oder Dokumente hinzufügen…</translation>
    </message>
    <message>
        <source>Add a folder of documents…</source>
        <translation>Ordner mit Dokumenten hinzufügen…</translation>
    </message>
    <message>
        <source>Add a part of the screen…</source>
        <translation>Ausschnitt des Bildschirms hinzufügen…</translation>
    </message>
    <message>
        <source>Pin or unpin</source>
        <translation>Anheften oder lösen</translation>
    </message>
    <message>
        <source>Move to folder…</source>
        <translation>In Ordner verschieben…</translation>
    </message>
    <message>
        <source>Export this chat…</source>
        <translation>Diesen Chat exportieren…</translation>
    </message>
    <message>
        <source>Export all chats…</source>
        <translation>Alle Chats exportieren…</translation>
    </message>
    <message>
        <source>Import chats…</source>
        <translation>Chats importieren…</translation>
    </message>
    <message>
        <source>Show Waymark</source>
        <translation>Waymark anzeigen</translation>
    </message>
    <message>
        <source>Quit</source>
        <translation>Beenden</translation>
    </message>
    <message>
        <source>The reply failed.</source>
        <translation>Die Antwort ist fehlgeschlagen.</translation>
    </message>
    <message>
        <source>The reply is finished.</source>
        <translation>Die Antwort ist fertig.</translation>
    </message>
    <message>
        <source>Print…</source>
        <translation>Drucken…</translation>
    </message>
    <message>
        <source>Back up everything…</source>
        <translation>Alles sichern…</translation>
    </message>
    <message>
        <source>Restore a backup…</source>
        <translation>Sicherung wiederherstellen…</translation>
    </message>
    <message>
        <source>&amp;Reply</source>
        <translation>&amp;Antwort</translation>
    </message>
    <message>
        <source>Edit the last message</source>
        <translation>Letzte Nachricht bearbeiten</translation>
    </message>
    <message>
        <source>&amp;Engine</source>
        <translation>&amp;Engine</translation>
    </message>
    <message>
        <source>Eject the model</source>
        <translation>Modell entladen</translation>
    </message>
    <message>
        <source>Local server…</source>
        <translation>Lokaler Server…</translation>
    </message>
    <message>
        <source>Servers…</source>
        <translation>Server…</translation>
    </message>
    <message>
        <source>Restart the engine</source>
        <translation>Engine neu starten</translation>
    </message>
    <message>
        <source>&amp;View</source>
        <translation>An&amp;sicht</translation>
    </message>
    <message>
        <source>Search all chats…</source>
        <translation>Alle Chats durchsuchen…</translation>
    </message>
    <message>
        <source>Right side</source>
        <translation>Rechte Seite</translation>
    </message>
    <message>
        <source>Settings</source>
        <translation>Einstellungen</translation>
    </message>
    <message>
        <source>Write a message</source>
        <translation>Nachricht schreiben</translation>
    </message>
    <message>
        <source>&amp;Help</source>
        <translation>&amp;Hilfe</translation>
    </message>
    <message>
        <source>Keyboard shortcuts</source>
        <translation>Tastenkürzel</translation>
    </message>
    <message>
        <source>About Waymark</source>
        <translation>Über Waymark</translation>
    </message>
    <message>
        <source>Menus</source>
        <translation>Menüs</translation>
    </message>
    <message>
        <source>not known</source>
        <translation>nicht bekannt</translation>
    </message>
    <message>
        <source>{percent} %</source>
        <translation>{percent} %</translation>
    </message>
    <message>
        <source>Reading the numbers of replies</source>
        <translation>Lesen der Zahlen von Antworten</translation>
    </message>
    <message>
        <source>Reply {number}: {value}</source>
        <translation>Antwort {number}: {value}</translation>
    </message>
    <message>
        <source>no replies</source>
        <translation>keine Antworten</translation>
    </message>
    <message>
        <source>Processor level</source>
        <translation>Prozessorstufe</translation>
    </message>
    <message>
        <source>Kernels</source>
        <translation>Kernel</translation>
    </message>
    <message>
        <source>Engine</source>
        <translation>Engine</translation>
    </message>
    <message>
        <source>{family}, {parameters} parameters, {tokens} tokens of context</source>
        <translation>{family}, {parameters} Parameter, {tokens} Token Kontext</translation>
    </message>
    <message>
        <source>Slowed by</source>
        <translation>Gebremst durch</translation>
    </message>
    <message>
        <source>Press the new keys in a field. The cross or Backspace removes them.</source>
        <translation>Drücken Sie in einem Feld die neuen Tasten. Das Kreuz oder die Rücktaste entfernt sie.</translation>
    </message>
    <message>
        <source>Start a new line</source>
        <translation>Neue Zeile beginnen</translation>
    </message>
    <message>
        <source>Select all text of a message, copy the selection</source>
        <translation>Ganzen Text einer Nachricht auswählen, Auswahl kopieren</translation>
    </message>
    <message>
        <source>Paste text, files or a picture</source>
        <translation>Text, Dateien oder ein Bild einfügen</translation>
    </message>
    <message>
        <source>Rename or delete the selected chat</source>
        <translation>Gewählten Chat umbenennen oder löschen</translation>
    </message>
    <message>
        <source>Open a picture, remove it from the draft</source>
        <translation>Bild öffnen, aus dem Entwurf entfernen</translation>
    </message>
    <message>
        <source>In the large picture: fit, actual size</source>
        <translation>Im großen Bild: einpassen, Originalgröße</translation>
    </message>
    <message>
        <source>In the large picture: previous, next</source>
        <translation>Im großen Bild: voriges, nächstes</translation>
    </message>
    <message>
        <source>In the large picture: copy, save</source>
        <translation>Im großen Bild: kopieren, speichern</translation>
    </message>
    <message>
        <source>Chat with a model on this computer. Nothing you write leaves it unless you use a server that you added.</source>
        <translation>Chatten Sie mit einem Modell auf diesem Computer. Nichts, was Sie schreiben, verlässt ihn, außer Sie verwenden einen Server, den Sie hinzugefügt haben.</translation>
    </message>
    <message>
        <source>Licences</source>
        <translation>Lizenzen</translation>
    </message>
    <message>
        <source>Copy diagnostics</source>
        <translation>Diagnose kopieren</translation>
    </message>
    <message>
        <source>Model &amp; settings</source>
        <translation>Modell &amp; Einstellungen</translation>
    </message>
    <message>
        <source>Showing a picture</source>
        <translation>Anzeigen eines Bildes</translation>
    </message>
    <message>
        <source>Copying a picture</source>
        <translation>Kopieren eines Bildes</translation>
    </message>
    <message>
        <source>Saving a picture</source>
        <translation>Speichern eines Bildes</translation>
    </message>
    <message>
        <source>Save the picture</source>
        <translation>Bild speichern</translation>
    </message>
    <message>
        <source>The system gave no reason.</source>
        <translation>Das System nannte keinen Grund.</translation>
    </message>
    <message>
        <source>The system&apos;s reason: {reason}.</source>
        <translation>Der Grund des Systems: {reason}.</translation>
    </message>
    <message>
        <source>All actions…</source>
        <translation>Alle Aktionen…</translation>
    </message>
    <message>
        <source>Larger text</source>
        <translation>Größerer Text</translation>
    </message>
    <message>
        <source>Smaller text</source>
        <translation>Kleinerer Text</translation>
    </message>
    <message>
        <source>Default text size</source>
        <translation>Normale Textgröße</translation>
    </message>
    <message>
        <source>Keys that can&apos;t be changed</source>
        <translation>Tasten, die sich nicht ändern lassen</translation>
    </message>
    <message>
        <source>Restore all</source>
        <translation>Alle zurücksetzen</translation>
    </message>
    <message>
        <source>Predicting a wait</source>
        <translation>Vorhersage einer Wartezeit</translation>
    </message>
    <message>
        <source>Nothing is read again; everything is kept.</source>
        <translation>Nichts wird noch einmal gelesen; alles bleibt erhalten.</translation>
    </message>
    <message>
        <source>{tokens} and looks at {images}</source>
        <translation>{tokens} und {images}</translation>
    </message>
    <message>
        <source>{read}, about {time}</source>
        <translation>{read}, etwa {time}</translation>
    </message>
    <message>
        <source>Reads the whole chat: {read}.</source>
        <translation>Liest den ganzen Chat: {read}.</translation>
    </message>
    <message>
        <source>Reads up to {read}; everything before is kept.</source>
        <translation>Liest bis zu {read}; alles davor bleibt erhalten.</translation>
    </message>
    <message>
        <source>Reads {read}, before the next reply; everything before is kept.</source>
        <translation>Liest {read}, vor der nächsten Antwort; alles davor bleibt erhalten.</translation>
    </message>
    <message>
        <source>Reads {read}; everything before is kept.</source>
        <translation>Liest {read}; alles davor bleibt erhalten.</translation>
    </message>
    <message>
        <source>Reads this chat from the beginning, unless it has read it before: about {tokens}, {time}.</source>
        <translation>Liest diesen Chat von Anfang an, wenn es ihn nicht schon gelesen hat: etwa {tokens}, {time}.</translation>
    </message>
    <message>
        <source>All actions</source>
        <translation>Alle Aktionen</translation>
    </message>
    <message>
        <source>Find an action</source>
        <translation>Aktion suchen</translation>
    </message>
    <message>
        <source>Actions</source>
        <translation>Aktionen</translation>
    </message>
    <message>
        <source>No action has this name</source>
        <translation>Keine Aktion heißt so</translation>
    </message>
    <message>
        <source>Use Ctrl, Alt or a function key, so that you can still type.</source>
        <translation>Nehmen Sie Strg, Alt oder eine Funktionstaste, damit Sie weiter tippen können.</translation>
    </message>
    <message>
        <source>{keys} is used for editing text.</source>
        <translation>{keys} dient zum Bearbeiten von Text.</translation>
    </message>
    <message>
        <source>{keys} already belongs to: {action}</source>
        <translation>{keys} gehört schon zu: {action}</translation>
    </message>
    <message>
        <source>Text, pictures or both</source>
        <translation>Text, Bilder oder beides</translation>
    </message>
    <message>
        <source>Put it into the message as plain text</source>
        <translation>Als einfachen Text in die Nachricht setzen</translation>
    </message>
    <message>
        <source>Remove this document</source>
        <translation>Dieses Dokument entfernen</translation>
    </message>
    <message>
        <source>Document {name}, {caption}</source>
        <translation>Dokument {name}, {caption}</translation>
    </message>
    <message>
        <source>Choose what the model reads</source>
        <translation>Wählen, was das Modell liest</translation>
    </message>
    <message>
        <source>Show the text</source>
        <translation>Text zeigen</translation>
    </message>
    <message>
        <source>Choose pages…</source>
        <translation>Seiten wählen…</translation>
    </message>
    <message>
        <source>Read the pages as pictures</source>
        <translation>Seiten als Bilder lesen</translation>
    </message>
    <message>
        <source>Read text and pictures</source>
        <translation>Text und Bilder lesen</translation>
    </message>
    <message>
        <source>{caption}: more than fits, choose parts</source>
        <translation>{caption}: zu lang; wählen Sie Teile</translation>
    </message>
    <message>
        <source>{chosen} of {count}</source>
        <translation>{chosen} von {count}</translation>
    </message>
    <message>
        <source>no text: use its pages as pictures</source>
        <translation>kein Text: Lesen Sie die Seiten als Bilder</translation>
    </message>
    <message>
        <source>about {tokens}</source>
        <translation>etwa {tokens}</translation>
    </message>
    <message>
        <source>about {time} to read</source>
        <translation>etwa {time} Lesezeit</translation>
    </message>
    <message>
        <source>Adding files</source>
        <translation>Hinzufügen von Dateien</translation>
    </message>
    <message>
        <source>Pasted text, {count} characters</source>
        <translation>Eingefügter Text, {count} Zeichen</translation>
    </message>
    <message>
        <source>{name} was not added as pictures: at most {most} pages are possible. Press the document to choose pages first.</source>
        <translation>{name} wurde nicht als Bilder hinzugefügt: Höchstens {most} Seiten sind möglich. Drücken Sie auf das Dokument, um zuerst Seiten zu wählen.</translation>
    </message>
    <message>
        <source>{name}, page {page}</source>
        <translation>{name}, Seite {page}</translation>
    </message>
    <message>
        <source>Waiting…</source>
        <translation>Wartet…</translation>
    </message>
    <message>
        <source>it has more than {most} files. Add the ones you need.</source>
        <translation>er enthält mehr als {most} Dateien. Fügen Sie die hinzu, die Sie brauchen.</translation>
    </message>
    <message>
        <source>there are no files in it.</source>
        <translation>Er enthält keine Dateien.</translation>
    </message>
    <message>
        <source>files in it that are neither pictures nor documents: {count}.</source>
        <translation>Dateien darin, die weder Bilder noch Dokumente sind: {count}.</translation>
    </message>
    <message>
        <source>{name} has no text to read. Add its pages as pictures, or remove it.</source>
        <translation>{name} enthält keinen Text zum Lesen. Fügen Sie die Seiten als Bilder hinzu, oder entfernen Sie es.</translation>
    </message>
    <message>
        <source>Not sent, and nothing was cut off: the documents have {tokens} tokens, and the context holds {limit}. Press {name} to choose the parts to read, or load the model with a longer context.</source>
        <translation>Nicht gesendet, und nichts wurde abgeschnitten: Die Dokumente haben {tokens} Token, und der Kontext fasst {limit}. Drücken Sie auf {name}, um die zu lesenden Teile zu wählen, oder laden Sie das Modell mit einem längeren Kontext.</translation>
    </message>
    <message>
        <source>It belongs to {program}. Move it there, or download it here again.</source>
        <translation>Es gehört zu {program}. Verschieben Sie es dort, oder laden Sie es hier noch einmal herunter.</translation>
    </message>
    <message>
        <source>Other files are in its folder. Move it in your file manager.</source>
        <translation>In seinem Ordner sind andere Dateien. Verschieben Sie es in Ihrem Dateimanager.</translation>
    </message>
    <message>
        <source>It is there already.</source>
        <translation>Es ist schon dort.</translation>
    </message>
    <message>
        <source>Progress of the move</source>
        <translation>Fortschritt des Verschiebens</translation>
    </message>
    <message>
        <source>Stop moving</source>
        <translation>Verschieben abbrechen</translation>
    </message>
    <message>
        <source>Moving {name}: {done} of {total}</source>
        <translation>{name} wird verschoben: {done} von {total}</translation>
    </message>
    <message>
        <source>{host} was removed. Add it again, or choose another model.</source>
        <translation>{host} wurde entfernt. Fügen Sie ihn wieder hinzu, oder wählen Sie ein anderes Modell.</translation>
    </message>
    <message>
        <source>The key of {host} isn&apos;t stored. Enter it, then send again.</source>
        <translation>Der Schlüssel von {host} ist nicht gespeichert. Geben Sie ihn ein und senden Sie erneut.</translation>
    </message>
    <message>
        <source>A key is needed</source>
        <translation>Ein Schlüssel wird gebraucht</translation>
    </message>
    <message>
        <source>Deleting a key</source>
        <translation>Löschen eines Schlüssels</translation>
    </message>
    <message>
        <source>Allow Waymark to connect first; the switch is in *Get a model*.</source>
        <translation>Erlauben Sie Waymark zuerst, sich zu verbinden; der Schalter ist in „Modell holen“.</translation>
    </message>
    <message>
        <source>The chat has its default settings again.</source>
        <translation>Der Chat hat wieder die Standardeinstellungen.</translation>
    </message>
    <message>
        <source>The chat uses the preset {name}.</source>
        <translation>Der Chat verwendet das Profil {name}.</translation>
    </message>
    <message>
        <source>The preset {name} is replaced.</source>
        <translation>Das Profil {name} ist ersetzt.</translation>
    </message>
    <message>
        <source>The preset {name} is deleted.</source>
        <translation>Das Profil {name} ist gelöscht.</translation>
    </message>
    <message>
        <source>Back to the default</source>
        <translation>Zurück zum Standard</translation>
    </message>
    <message>
        <source>They replace the settings for all chats, from the next message on.</source>
        <translation>Sie ersetzen die Einstellungen für alle Chats, ab der nächsten Nachricht.</translation>
    </message>
    <message>
        <source>Differs from the default: {what}.</source>
        <translation>Anders als der Standard: {what}.</translation>
    </message>
    <message>
        <source>The same as the default for new chats.</source>
        <translation>Wie der Standard für neue Chats.</translation>
    </message>
    <message>
        <source>Presets</source>
        <translation>Profile</translation>
    </message>
    <message>
        <source>No presets yet</source>
        <translation>Noch keine Profile</translation>
    </message>
    <message>
        <source>Use in this chat</source>
        <translation>In diesem Chat verwenden</translation>
    </message>
    <message>
        <source>Delete the preset</source>
        <translation>Profil löschen</translation>
    </message>
    <message>
        <source>Begin new chats with this preset</source>
        <translation>Neue Chats mit diesem Profil beginnen</translation>
    </message>
    <message>
        <source>Name of a preset</source>
        <translation>Name eines Profils</translation>
    </message>
    <message>
        <source>Save as preset</source>
        <translation>Als Profil speichern</translation>
    </message>
    <message>
        <source>Save the model with it</source>
        <translation>Das Modell mitspeichern</translation>
    </message>
    <message>
        <source>Writing a title</source>
        <translation>Titel schreiben</translation>
    </message>
    <message>
        <source>Keeping the computer awake</source>
        <translation>Computer wach halten</translation>
    </message>
    <message>
        <source>A reply is being written, or a model is being downloaded</source>
        <translation>Eine Antwort wird geschrieben oder ein Modell heruntergeladen</translation>
    </message>
    <message>
        <source>Making a folder</source>
        <translation>Anlegen eines Ordners</translation>
    </message>
    <message>
        <source>Renaming a folder</source>
        <translation>Umbenennen eines Ordners</translation>
    </message>
    <message>
        <source>Folding a folder</source>
        <translation>Zuklappen eines Ordners</translation>
    </message>
    <message>
        <source>Moving a chat</source>
        <translation>Verschieben eines Chats</translation>
    </message>
    <message>
        <source>Storing the defaults of a folder</source>
        <translation>Speichern der Standardwerte eines Ordners</translation>
    </message>
    <message>
        <source>Deleting a folder</source>
        <translation>Löschen eines Ordners</translation>
    </message>
    <message>
        <source>The folder {name} is deleted. Its chats stay in the list.</source>
        <translation>Der Ordner {name} ist gelöscht. Seine Chats bleiben in der Liste.</translation>
    </message>
    <message>
        <source>Restoring a folder</source>
        <translation>Wiederherstellen eines Ordners</translation>
    </message>
    <message>
        <source>Backing up</source>
        <translation>Sichern</translation>
    </message>
    <message>
        <source>Another backup is being checked.</source>
        <translation>Eine andere Sicherung wird gerade geprüft.</translation>
    </message>
    <message>
        <source>Restoring a backup</source>
        <translation>Wiederherstellen einer Sicherung</translation>
    </message>
    <message>
        <source>Leaving a backup</source>
        <translation>Verwerfen einer Sicherung</translation>
    </message>
    <message>
        <source>Backed up to {path}: {chats}, with pictures, documents, presets and settings.</source>
        <translation>Gesichert nach {path}: {chats}, mit Bildern, Dokumenten, Profilen und Einstellungen.</translation>
    </message>
    <message>
        <source>The backup of {moment} is complete: {counts}. Waymark closes now and shows it at the next start.</source>
        <translation>Die Sicherung vom {moment} ist vollständig: {counts}. Waymark wird jetzt geschlossen und zeigt sie beim nächsten Start.</translation>
    </message>
    <message>
        <source>Your present chats ({count}) and settings are kept in {folder}.</source>
        <translation>Ihre jetzigen Chats ({count}) und Einstellungen bleiben erhalten, in {folder}.</translation>
    </message>
    <message>
        <source>Checking {}…</source>
        <translation>{} wird geprüft…</translation>
    </message>
    <message>
        <source>{path} can&apos;t be read: {reason}.</source>
        <translation>{path} kann nicht gelesen werden: {reason}.</translation>
    </message>
    <message>
        <source>Chat {number} in it can&apos;t be read: {title}.</source>
        <translation>Chat {number} darin kann nicht gelesen werden: {title}.</translation>
    </message>
    <message>
        <source>Checked {done} of {total} chats…</source>
        <translation>{done} von {total} Chats geprüft…</translation>
    </message>
    <message>
        <source>It is not complete. It should hold {wanted}, but holds {read}.</source>
        <translation>Sie ist nicht vollständig. Sie sollte {wanted} enthalten, enthält aber {read}.</translation>
    </message>
    <message>
        <source>It could not be stored: {reason}.</source>
        <translation>Sie konnte nicht gespeichert werden: {reason}.</translation>
    </message>
    <message>
        <source>It is not a backup of Waymark. To add exported chats, use Import chats.</source>
        <translation>Es ist keine Sicherung von Waymark. Exportierte Chats fügt „Chats importieren“ hinzu.</translation>
    </message>
    <message>
        <source>{name} in it is damaged, or from a newer version of Waymark.</source>
        <translation>{name} darin ist beschädigt oder stammt von einer neueren Version von Waymark.</translation>
    </message>
    <message>
        <source>The backup is restored.</source>
        <translation>Die Sicherung ist wiederhergestellt.</translation>
    </message>
    <message>
        <source>The backup is restored. The chats from before are kept as {name}.</source>
        <translation>Die Sicherung ist wiederhergestellt. Die Chats von vorher sind als {name} erhalten.</translation>
    </message>
    <message>
        <source>A restored backup can&apos;t be put in place: {reason}.</source>
        <translation>Eine wiederhergestellte Sicherung kann nicht an ihren Platz gebracht werden: {reason}.</translation>
    </message>
    <message>
        <source>Stopped</source>
        <translation>Angehalten</translation>
    </message>
    <message>
        <source>A model file is missing</source>
        <translation>Eine Datei des Modells fehlt</translation>
    </message>
    <message>
        <source>Waymark can&apos;t open this GGUF file</source>
        <translation>Waymark kann diese GGUF-Datei nicht öffnen</translation>
    </message>
    <message>
        <source>The model&apos;s settings can&apos;t be read</source>
        <translation>Die Einstellungen des Modells sind nicht lesbar</translation>
    </message>
    <message>
        <source>The weights are incomplete</source>
        <translation>Die Gewichte sind unvollständig</translation>
    </message>
    <message>
        <source>The weights don&apos;t fit the model</source>
        <translation>Die Gewichte passen nicht zum Modell</translation>
    </message>
    <message>
        <source>The weights are damaged</source>
        <translation>Die Gewichte sind beschädigt</translation>
    </message>
    <message>
        <source>These weights are not safe to open</source>
        <translation>Diese Gewichte zu öffnen ist nicht sicher</translation>
    </message>
    <message>
        <source>Waymark can&apos;t read this quantisation</source>
        <translation>Waymark kann diese Quantisierung nicht lesen</translation>
    </message>
    <message>
        <source>This model folder takes too long to read</source>
        <translation>Diesen Modellordner zu lesen dauert zu lange</translation>
    </message>
    <message>
        <source>Waymark doesn&apos;t know this kind of model</source>
        <translation>Waymark kennt diese Art von Modell nicht</translation>
    </message>
    <message>
        <source>This device or precision can&apos;t be used</source>
        <translation>Dieses Gerät oder diese Genauigkeit ist nicht verwendbar</translation>
    </message>
    <message>
        <source>Not enough memory</source>
        <translation>Nicht genug Speicher</translation>
    </message>
    <message>
        <source>The model&apos;s tokenizer can&apos;t be read</source>
        <translation>Der Tokenizer des Modells ist nicht lesbar</translation>
    </message>
    <message>
        <source>Waymark doesn&apos;t know this kind of tokenizer</source>
        <translation>Waymark kennt diese Art von Tokenizer nicht</translation>
    </message>
    <message>
        <source>The model&apos;s chat template failed</source>
        <translation>Die Chat-Vorlage des Modells ist gescheitert</translation>
    </message>
    <message>
        <source>The model&apos;s chat template never ends</source>
        <translation>Die Chat-Vorlage des Modells endet nie</translation>
    </message>
    <message>
        <source>The model&apos;s chat template writes too much</source>
        <translation>Die Chat-Vorlage des Modells schreibt zu viel</translation>
    </message>
    <message>
        <source>The file does not answer</source>
        <translation>Die Datei antwortet nicht</translation>
    </message>
    <message>
        <source>This file can&apos;t be imported</source>
        <translation>Diese Datei kann nicht importiert werden</translation>
    </message>
    <message>
        <source>This document can&apos;t be used</source>
        <translation>Dieses Dokument ist nicht verwendbar</translation>
    </message>
    <message>
        <source>This document can&apos;t be read</source>
        <translation>Dieses Dokument ist nicht lesbar</translation>
    </message>
    <message>
        <source>This document is too large</source>
        <translation>Dieses Dokument ist zu groß</translation>
    </message>
    <message>
        <source>This picture can&apos;t be used</source>
        <translation>Dieses Bild ist nicht verwendbar</translation>
    </message>
    <message>
        <source>This picture can&apos;t be read</source>
        <translation>Dieses Bild ist nicht lesbar</translation>
    </message>
    <message>
        <source>This picture is too large</source>
        <translation>Dieses Bild ist zu groß</translation>
    </message>
    <message>
        <source>This picture is empty</source>
        <translation>Dieses Bild ist leer</translation>
    </message>
    <message>
        <source>This picture is too long and thin</source>
        <translation>Dieses Bild ist zu lang und schmal</translation>
    </message>
    <message>
        <source>This model can&apos;t see pictures</source>
        <translation>Dieses Modell versteht keine Bilder</translation>
    </message>
    <message>
        <source>This model can&apos;t call tools</source>
        <translation>Dieses Modell kann keine Werkzeuge aufrufen</translation>
    </message>
    <message>
        <source>The memory budget is too small</source>
        <translation>Das Speicherbudget ist zu klein</translation>
    </message>
    <message>
        <source>Not enough memory for this next to the chat</source>
        <translation>Nicht genug Speicher dafür neben dem Chat</translation>
    </message>
    <message>
        <source>There is nothing to answer</source>
        <translation>Es gibt nichts zu beantworten</translation>
    </message>
    <message>
        <source>The request is not valid</source>
        <translation>Die Anfrage ist nicht gültig</translation>
    </message>
    <message>
        <source>The reply&apos;s format can&apos;t be used</source>
        <translation>Das Format der Antwort ist nicht verwendbar</translation>
    </message>
    <message>
        <source>Engine and window don&apos;t understand each other</source>
        <translation>Engine und Fenster verstehen einander nicht</translation>
    </message>
    <message>
        <source>The engine stopped</source>
        <translation>Die Engine ist ausgefallen</translation>
    </message>
    <message>
        <source>Waymark is already open</source>
        <translation>Waymark ist schon geöffnet</translation>
    </message>
    <message>
        <source>The model server can&apos;t be reached</source>
        <translation>Der Modellserver ist nicht erreichbar</translation>
    </message>
    <message>
        <source>The model server&apos;s answer can&apos;t be used</source>
        <translation>Die Antwort des Modellservers ist nicht verwendbar</translation>
    </message>
    <message>
        <source>There is no such model</source>
        <translation>Dieses Modell gibt es nicht</translation>
    </message>
    <message>
        <source>This model needs permission</source>
        <translation>Dieses Modell braucht eine Erlaubnis</translation>
    </message>
    <message>
        <source>The download is damaged</source>
        <translation>Der Download ist beschädigt</translation>
    </message>
    <message>
        <source>The download stopped</source>
        <translation>Der Download wurde abgebrochen</translation>
    </message>
    <message>
        <source>Not enough space on the disk</source>
        <translation>Nicht genug Platz auf dem Datenträger</translation>
    </message>
    <message>
        <source>The model was not moved</source>
        <translation>Das Modell wurde nicht verschoben</translation>
    </message>
    <message>
        <source>The model can&apos;t be stored there</source>
        <translation>Das Modell kann dort nicht gespeichert werden</translation>
    </message>
    <message>
        <source>This model&apos;s files can&apos;t be read</source>
        <translation>Die Dateien dieses Modells sind nicht lesbar</translation>
    </message>
    <message>
        <source>The server can&apos;t be reached</source>
        <translation>Der Server ist nicht erreichbar</translation>
    </message>
    <message>
        <source>The server refuses the key</source>
        <translation>Der Server lehnt den Schlüssel ab</translation>
    </message>
    <message>
        <source>The server refuses the request</source>
        <translation>Der Server lehnt die Anfrage ab</translation>
    </message>
    <message>
        <source>The server&apos;s answer can&apos;t be used</source>
        <translation>Die Antwort des Servers ist nicht verwendbar</translation>
    </message>
    <message>
        <source>The server stopped answering</source>
        <translation>Der Server antwortet nicht mehr</translation>
    </message>
    <message>
        <source>The server&apos;s model has changed</source>
        <translation>Das Modell des Servers hat sich geändert</translation>
    </message>
    <message>
        <source>The connection to the server ended</source>
        <translation>Die Verbindung zum Server ist beendet</translation>
    </message>
    <message>
        <source>The local server stopped</source>
        <translation>Der lokale Server ist ausgefallen</translation>
    </message>
    <message>
        <source>The local server could not start</source>
        <translation>Der lokale Server konnte nicht starten</translation>
    </message>
    <message>
        <source>Not everything could be deleted</source>
        <translation>Nicht alles konnte gelöscht werden</translation>
    </message>
    <message>
        <source>Unexpected error in the engine</source>
        <translation>Unerwarteter Fehler in der Engine</translation>
    </message>
    <message>
        <source>This is not a file</source>
        <translation>Das ist keine Datei</translation>
    </message>
    <message>
        <source>The conversation is longer than the context</source>
        <translation>Die Unterhaltung ist länger als der Kontext</translation>
    </message>
    <message>
        <source>The picture was not saved</source>
        <translation>Das Bild wurde nicht gespeichert</translation>
    </message>
    <message>
        <source>There is no picture of the screen</source>
        <translation>Es gibt kein Bild des Bildschirms</translation>
    </message>
    <message>
        <source>The chats could not be exported</source>
        <translation>Die Chats konnten nicht exportiert werden</translation>
    </message>
    <message>
        <source>The backup can&apos;t be restored</source>
        <translation>Die Sicherung kann nicht wiederhergestellt werden</translation>
    </message>
    <message>
        <source>The network is forbidden</source>
        <translation>Der Zugriff auf das Netz ist nicht erlaubt</translation>
    </message>
    <message>
        <source>The model was not deleted</source>
        <translation>Das Modell wurde nicht gelöscht</translation>
    </message>
    <message>
        <source>Waymark could not start</source>
        <translation>Waymark konnte nicht starten</translation>
    </message>
    <message>
        <source>The chats can&apos;t be stored</source>
        <translation>Die Chats können nicht gespeichert werden</translation>
    </message>
    <message>
        <source>The damaged chats could not be recovered</source>
        <translation>Die beschädigten Chats konnten nicht gerettet werden</translation>
    </message>
    <message>
        <source>The chats could not be converted for this version</source>
        <translation>Die Chats konnten nicht für diese Version umgewandelt werden</translation>
    </message>
    <message>
        <source>This file doesn&apos;t hold Waymark&apos;s chats</source>
        <translation>Diese Datei enthält keine Chats von Waymark</translation>
    </message>
    <message>
        <source>These chats belong to a newer Waymark</source>
        <translation>Diese Chats gehören zu einem neueren Waymark</translation>
    </message>
    <message>
        <source>There is no summary</source>
        <translation>Es gibt keine Zusammenfassung</translation>
    </message>
    <message>
        <source>{name} is damaged, or none of {formats}.</source>
        <translation>{name} ist beschädigt oder keines von {formats}.</translation>
    </message>
    <message>
        <source>{name} is damaged: decoding it failed.</source>
        <translation>{name} ist beschädigt: Das Dekodieren ist gescheitert.</translation>
    </message>
    <message>
        <source>{name} has changed since it was added to the chat.</source>
        <translation>{name} hat sich geändert, seit es dem Chat hinzugefügt wurde.</translation>
    </message>
    <message>
        <source>{name} doesn&apos;t exist any more, or isn&apos;t a file.</source>
        <translation>{name} ist nicht mehr da oder ist keine Datei.</translation>
    </message>
    <message>
        <source>{name} can&apos;t be opened: {reason}.</source>
        <translation>{name} kann nicht geöffnet werden: {reason}.</translation>
    </message>
    <message>
        <source>{name} can&apos;t be decoded: the process for it could not be started.</source>
        <translation>{name} kann nicht dekodiert werden: Der Prozess dafür konnte nicht gestartet werden.</translation>
    </message>
    <message>
        <source>{name} is an empty file.</source>
        <translation>{name} ist eine leere Datei.</translation>
    </message>
    <message>
        <source>{name} measures {width} x {height} pixels.</source>
        <translation>{name} misst {width} x {height} Pixel.</translation>
    </message>
    <message>
        <source>{name} has {width} x {height} = {count} million pixels; the limit is {limit} million.</source>
        <translation>{name} hat {width} x {height} = {count} Millionen Pixel; die Grenze sind {limit} Millionen.</translation>
    </message>
    <message>
        <source>{name} has far more than {limit} million pixels, the limit.</source>
        <translation>{name} hat weit mehr als {limit} Millionen Pixel, die Grenze.</translation>
    </message>
    <message>
        <source>{name} has more than {limit} MiB.</source>
        <translation>{name} hat mehr als {limit} MiB.</translation>
    </message>
    <message>
        <source>{name} takes longer than {seconds} seconds to decode, so it was stopped.</source>
        <translation>Das Dekodieren von {name} dauerte länger als {seconds} Sekunden und wurde daher abgebrochen.</translation>
    </message>
    <message>
        <source>There is not enough memory to open {name}.</source>
        <translation>Der Speicher reicht nicht, um {name} zu öffnen.</translation>
    </message>
    <message>
        <source>The picture measures {width} x {height} pixels; one side may be at most {times} times as long as the other.</source>
        <translation>Das Bild misst {width} x {height} Pixel; eine Seite darf höchstens {times}-mal so lang sein wie die andere.</translation>
    </message>
    <message>
        <source>The conversation holds a picture, and this model reads text only. Take the picture out or load a model with vision.</source>
        <translation>Die Unterhaltung enthält ein Bild, und dieses Modell liest nur Text. Entfernen Sie das Bild oder laden Sie ein Modell, das Bilder versteht.</translation>
    </message>
    <message>
        <source>{name} has {count} pages; the limit is {limit}.</source>
        <translation>{name} hat {count} Seiten; die Grenze ist {limit}.</translation>
    </message>
    <message>
        <source>{name} has {count} characters of text; the limit is {limit}.</source>
        <translation>{name} hat {count} Zeichen Text; die Grenze ist {limit}.</translation>
    </message>
    <message>
        <source>{name} has more than {limit} characters of text.</source>
        <translation>{name} hat mehr als {limit} Zeichen Text.</translation>
    </message>
    <message>
        <source>{name} has no pages.</source>
        <translation>{name} hat keine Seiten.</translation>
    </message>
    <message>
        <source>{name} isn&apos;t a text, PDF, Word or Excel document.</source>
        <translation>{name} ist kein Text, PDF-, Word- oder Excel-Dokument.</translation>
    </message>
    <message>
        <source>{name} is damaged, or isn&apos;t a PDF.</source>
        <translation>{name} ist beschädigt oder keine PDF-Datei.</translation>
    </message>
    <message>
        <source>{name} is protected by a password.</source>
        <translation>{name} ist durch ein Passwort geschützt.</translation>
    </message>
    <message>
        <source>{name} is an archive, and no Word or Excel document.</source>
        <translation>{name} ist ein Archiv und kein Word- oder Excel-Dokument.</translation>
    </message>
    <message>
        <source>{name} is in an old Office format, or protected by a password. Save it as .docx or .xlsx without one.</source>
        <translation>{name} hat ein altes Office-Format oder ist durch ein Passwort geschützt. Speichern Sie es ohne Passwort als .docx oder .xlsx.</translation>
    </message>
    <message>
        <source>{name} is damaged.</source>
        <translation>{name} ist beschädigt.</translation>
    </message>
    <message>
        <source>{name} has no chat template, so it can&apos;t hold a conversation.</source>
        <translation>{name} hat keine Chat-Vorlage und kann daher keine Unterhaltung führen.</translation>
    </message>
    <message>
        <source>{name} has no preprocessor_config.json, so it can&apos;t see pictures.</source>
        <translation>{name} hat keine preprocessor_config.json und versteht daher keine Bilder.</translation>
    </message>
    <message>
        <source>The GGUF file has no chat template, so it can&apos;t hold a conversation.</source>
        <translation>Die GGUF-Datei hat keine Chat-Vorlage und kann daher keine Unterhaltung führen.</translation>
    </message>
    <message>
        <source>{folder} has no {name}.</source>
        <translation>In {folder} fehlt {name}.</translation>
    </message>
    <message>
        <source>{folder} is not a folder.</source>
        <translation>{folder} ist kein Ordner.</translation>
    </message>
    <message>
        <source>{name} can&apos;t be read: {reason}.</source>
        <translation>{name} kann nicht gelesen werden: {reason}.</translation>
    </message>
    <message>
        <source>{name} holds several GGUF files. Choose the one to open.</source>
        <translation>{name} enthält mehrere GGUF-Dateien. Wählen Sie die, die geöffnet werden soll.</translation>
    </message>
    <message>
        <source>{name} has {size} bytes, and its tensors need {needed}. It was not downloaded completely, or is damaged.</source>
        <translation>{name} hat {size} Bytes, und seine Tensoren brauchen {needed}. Die Datei wurde nicht vollständig heruntergeladen oder ist beschädigt.</translation>
    </message>
    <message>
        <source>{name} is damaged or not a GGUF file: {fault}.</source>
        <translation>{name} ist beschädigt oder keine GGUF-Datei: {fault}.</translation>
    </message>
    <message>
        <source>{name} is the part of a model that sees pictures. Choose the model&apos;s file; this one is found next to it.</source>
        <translation>{name} ist der Teil eines Modells, der Bilder versteht. Wählen Sie die Datei des Modells; diese wird daneben gefunden.</translation>
    </message>
    <message>
        <source>The architecture of {name} is {kind}. Of GGUF files Waymark runs: {kinds}.</source>
        <translation>Die Architektur von {name} ist {kind}. Von GGUF-Dateien führt Waymark aus: {kinds}.</translation>
    </message>
    <message>
        <source>The model type in config.json is {kind}. Waymark runs: {kinds}.</source>
        <translation>Die Art des Modells in config.json ist {kind}. Waymark führt aus: {kinds}.</translation>
    </message>
    <message>
        <source>{name} can run code when it is opened. Waymark reads .safetensors only; most models are published in both.</source>
        <translation>{name} kann beim Öffnen Code ausführen. Waymark liest nur .safetensors; die meisten Modelle sind in beiden Formaten veröffentlicht.</translation>
    </message>
    <message>
        <source>The files of this model folder take longer to look at than any model&apos;s should. If the computer is busy or the disk is slow, try again.</source>
        <translation>Die Dateien dieses Modellordners anzusehen dauert länger als bei jedem Modell. Ist der Computer beschäftigt oder der Datenträger langsam, versuchen Sie es noch einmal.</translation>
    </message>
    <message>
        <source>{name} was changed after the model was loaded. Load the model again.</source>
        <translation>{name} wurde geändert, nachdem das Modell geladen war. Laden Sie das Modell neu.</translation>
    </message>
    <message>
        <source>The model needs {needed} of memory, {free} is free.</source>
        <translation>Das Modell braucht {needed} Speicher, frei sind {free}.</translation>
    </message>
    <message>
        <source>The model needs {needed} on the graphics card, {free} is free.</source>
        <translation>Das Modell braucht {needed} auf der Grafikkarte, frei sind {free}.</translation>
    </message>
    <message>
        <source>No room for the next {size} MB of the model.</source>
        <translation>Kein Platz für die nächsten {size} MB des Modells.</translation>
    </message>
    <message>
        <source>No NVIDIA GPU that this build of PyTorch can use was found. Choose CPU or automatic.</source>
        <translation>Keine NVIDIA-GPU gefunden, die diese Version von PyTorch verwenden kann. Wählen Sie CPU oder automatisch.</translation>
    </message>
    <message>
        <source>The budget for {place} is {budget} bytes. A context of {tokens} tokens alone takes {needed} bytes: allow at least that, or load the model with a shorter context.</source>
        <translation>Das Budget für {place} ist {budget} Bytes. Ein Kontext von {tokens} Token allein braucht {needed} Bytes: Erlauben Sie mindestens so viel oder laden Sie das Modell mit einem kürzeren Kontext.</translation>
    </message>
    <message>
        <source>host memory</source>
        <translation>Arbeitsspeicher</translation>
    </message>
    <message>
        <source>device memory</source>
        <translation>Grafikspeicher</translation>
    </message>
    <message>
        <source>Write a message first.</source>
        <translation>Schreiben Sie zuerst eine Nachricht.</translation>
    </message>
    <message>
        <source>The last message is empty.</source>
        <translation>Die letzte Nachricht ist leer.</translation>
    </message>
    <message>
        <source>The system had no memory left for this request. {reason} {details}</source>
        <translation>Das System hatte keinen Speicher mehr für diese Anfrage. {reason} {details}</translation>
    </message>
    <message>
        <source>Close other programs, choose a shorter context or fewer checkpoints.</source>
        <translation>Schließen Sie andere Programme, wählen Sie einen kürzeren Kontext oder weniger Checkpoints.</translation>
    </message>
    <message>
        <source>It takes {tokens} tokens beside the chat, and the memory budget has room for {room}. Allow more memory, or ask about less.</source>
        <translation>Es braucht {tokens} Token neben dem Chat, und im Speicherbudget ist Platz für {room}. Erlauben Sie mehr Speicher oder fragen Sie nach weniger.</translation>
    </message>
    <message>
        <source>The model&apos;s chat template says: {details}</source>
        <translation>Die Chat-Vorlage des Modells meldet: {details}</translation>
    </message>
    <message>
        <source>The template was still running after {seconds} seconds, so it was stopped.</source>
        <translation>Die Vorlage lief nach {seconds} Sekunden noch und wurde daher abgebrochen.</translation>
    </message>
    <message>
        <source>The template used too much memory, so it was stopped.</source>
        <translation>Die Vorlage brauchte zu viel Speicher und wurde daher abgebrochen.</translation>
    </message>
    <message>
        <source>This model&apos;s chat template has no place for pictures.</source>
        <translation>Die Chat-Vorlage dieses Modells hat keinen Platz für Bilder.</translation>
    </message>
    <message>
        <source>Servers take only JSON, with or without a schema.</source>
        <translation>Server nehmen nur JSON, mit oder ohne Schema.</translation>
    </message>
    <message>
        <source>The model computed something that is not a number. Its weights may be damaged, or the precision may be too low for them.</source>
        <translation>Das Modell hat etwas berechnet, das keine Zahl ist. Vielleicht sind seine Gewichte beschädigt, oder die Genauigkeit ist zu gering für sie.</translation>
    </message>
    <message>
        <source>The request was stopped.</source>
        <translation>Die Anfrage wurde angehalten.</translation>
    </message>
    <message>
        <source>The engine is not running.</source>
        <translation>Die Engine läuft nicht.</translation>
    </message>
    <message>
        <source>The engine was closed.</source>
        <translation>Die Engine wurde beendet.</translation>
    </message>
    <message>
        <source>The engine could not be started: {details}.</source>
        <translation>Die Engine konnte nicht gestartet werden: {details}.</translation>
    </message>
    <message>
        <source>The engine was started again, as you asked.</source>
        <translation>Die Engine wurde wie gewünscht neu gestartet.</translation>
    </message>
    <message>
        <source>It did not answer any more, so it was ended and started again.</source>
        <translation>Sie antwortete nicht mehr und wurde daher beendet und neu gestartet.</translation>
    </message>
    <message>
        <source>The process no longer accepts commands.</source>
        <translation>Der Prozess nimmt keine Befehle mehr an.</translation>
    </message>
    <message>
        <source>{reason} Its last output: {details}</source>
        <translation>{reason} Ihre letzte Ausgabe: {details}</translation>
    </message>
    <message>
        <source>The engine closed its output.</source>
        <translation>Die Engine hat ihre Ausgabe geschlossen.</translation>
    </message>
    <message>
        <source>The engine ended with exit code {code}.</source>
        <translation>Die Engine endete mit dem Code {code}.</translation>
    </message>
    <message>
        <source>The engine was killed (SIGKILL): usually because the system ran out of memory.</source>
        <translation>Die Engine wurde vom System beendet (SIGKILL), meist, weil der Speicher ausging.</translation>
    </message>
    <message>
        <source>The engine crashed ({code}).</source>
        <translation>Die Engine ist abgestürzt ({code}).</translation>
    </message>
    <message>
        <source>Another Waymark uses {folder}. Close it first, or choose another data folder.</source>
        <translation>Ein anderes Waymark verwendet {folder}. Beenden Sie es zuerst oder wählen Sie einen anderen Datenordner.</translation>
    </message>
    <message>
        <source>Contexts can&apos;t be kept in {folder}: {reason}.</source>
        <translation>Kontexte können nicht in {folder} gespeichert werden: {reason}.</translation>
    </message>
    <message>
        <source>The download needs {needed} GB more on the disk of {folder}, where {free} GB are free.</source>
        <translation>Der Download braucht noch {needed} GB auf dem Datenträger von {folder}, auf dem {free} GB frei sind.</translation>
    </message>
    <message>
        <source>The disk of {folder} is full. What has arrived is kept: make room and go on.</source>
        <translation>Der Datenträger von {folder} ist voll. Was angekommen ist, bleibt erhalten: Schaffen Sie Platz und setzen Sie fort.</translation>
    </message>
    <message>
        <source>{name} doesn&apos;t have the digest that the model server publishes, even after a second attempt. Nothing of it is used.</source>
        <translation>{name} hat auch nach einem zweiten Versuch nicht die Prüfsumme, die der Modellserver veröffentlicht. Nichts davon wird verwendet.</translation>
    </message>
    <message>
        <source>{name} exists and isn&apos;t the published file. Move it away or choose another folder for models.</source>
        <translation>{name} gibt es schon, und es ist nicht die veröffentlichte Datei. Verschieben Sie sie oder wählen Sie einen anderen Ordner für Modelle.</translation>
    </message>
    <message>
        <source>Another Waymark is downloading this. Stop it there first.</source>
        <translation>Ein anderes Waymark lädt dies gerade herunter. Halten Sie es zuerst dort an.</translation>
    </message>
    <message>
        <source>The process of downloads ended. What has arrived is kept.</source>
        <translation>Der Prozess der Downloads ist beendet. Was angekommen ist, bleibt erhalten.</translation>
    </message>
    <message>
        <source>After several attempts: {reason}.</source>
        <translation>Nach mehreren Versuchen: {reason}.</translation>
    </message>
    <message>
        <source>the proxy refuses the connection</source>
        <translation>der Proxy lehnt die Verbindung ab</translation>
    </message>
    <message>
        <source>the server&apos;s certificate can&apos;t be verified</source>
        <translation>das Zertifikat des Servers ist nicht überprüfbar</translation>
    </message>
    <message>
        <source>there is no connection to the server</source>
        <translation>es gibt keine Verbindung zum Server</translation>
    </message>
    <message>
        <source>the connection broke off</source>
        <translation>die Verbindung brach ab</translation>
    </message>
    <message>
        <source>the connection&apos;s settings have changed</source>
        <translation>die Einstellungen der Verbindung haben sich geändert</translation>
    </message>
    <message>
        <source>the server has sent nothing for a while</source>
        <translation>der Server hat eine Weile nichts gesendet</translation>
    </message>
    <message>
        <source>the server began the file again</source>
        <translation>der Server hat die Datei von vorn begonnen</translation>
    </message>
    <message>
        <source>the server answers {details}</source>
        <translation>der Server antwortet mit {details}</translation>
    </message>
    <message>
        <source>The model is private, gated or doesn&apos;t exist. Accept its licence on its page in a browser if there is one, and enter an access token.</source>
        <translation>Das Modell ist privat, zugangsbeschränkt oder existiert nicht. Nehmen Sie, wenn es eine gibt, die Lizenz auf seiner Seite in einem Browser an und geben Sie ein Zugriffstoken ein.</translation>
    </message>
    <message>
        <source>The access token may not read this model. Accept its licence on its page in a browser, or enter another token.</source>
        <translation>Das Zugriffstoken darf dieses Modell nicht lesen. Nehmen Sie die Lizenz auf seiner Seite in einem Browser an oder geben Sie ein anderes Token ein.</translation>
    </message>
    <message>
        <source>The access token has characters that no token has.</source>
        <translation>Das Zugriffstoken hat Zeichen, die kein Token hat.</translation>
    </message>
    <message>
        <source>The model server doesn&apos;t have it, or has it no longer.</source>
        <translation>Der Modellserver hat es nicht oder nicht mehr.</translation>
    </message>
    <message>
        <source>“{name}” is not the name of a model: it has to be Org/Name.</source>
        <translation>„{name}“ ist kein Name eines Modells: Er muss Org/Name sein.</translation>
    </message>
    <message>
        <source>The model server&apos;s address is not valid.</source>
        <translation>Die Adresse des Modellservers ist nicht gültig.</translation>
    </message>
    <message>
        <source>The model server&apos;s address has to be like https://host.</source>
        <translation>Die Adresse des Modellservers muss wie https://host aussehen.</translation>
    </message>
    <message>
        <source>The proxy&apos;s address is not valid.</source>
        <translation>Die Adresse des Proxys ist nicht gültig.</translation>
    </message>
    <message>
        <source>Waymark can&apos;t use SOCKS proxies, only HTTP ones.</source>
        <translation>Waymark kann keine SOCKS-Proxys verwenden, nur HTTP-Proxys.</translation>
    </message>
    <message>
        <source>The model needs {needed} GB on the disk of {folder}, where {free} GB are free.</source>
        <translation>Das Modell braucht {needed} GB auf dem Datenträger von {folder}, auf dem {free} GB frei sind.</translation>
    </message>
    <message>
        <source>The other disk is full. The model stays in its place.</source>
        <translation>Der andere Datenträger ist voll. Das Modell bleibt an seinem Platz.</translation>
    </message>
    <message>
        <source>The model stays where it was.</source>
        <translation>Das Modell bleibt, wo es war.</translation>
    </message>
    <message>
        <source>The address has to be like https://host or host:8000.</source>
        <translation>Die Adresse muss wie https://host oder host:8000 aussehen.</translation>
    </message>
    <message>
        <source>The address may not have a password or a query; a key has its own field.</source>
        <translation>Die Adresse darf kein Passwort und keine Abfrage enthalten; für einen Schlüssel gibt es ein eigenes Feld.</translation>
    </message>
    <message>
        <source>The key has characters that no key has.</source>
        <translation>Der Schlüssel hat Zeichen, die kein Schlüssel hat.</translation>
    </message>
    <message>
        <source>The connection broke off in the middle of the reply.</source>
        <translation>Die Verbindung brach mitten in der Antwort ab.</translation>
    </message>
    <message>
        <source>The connection ended in the middle of the reply.</source>
        <translation>Die Verbindung endete mitten in der Antwort.</translation>
    </message>
    <message>
        <source>The server ended the reply before its end.</source>
        <translation>Der Server beendete die Antwort vor ihrem Ende.</translation>
    </message>
    <message>
        <source>No text came for {seconds} seconds.</source>
        <translation>Seit {seconds} Sekunden kam kein Text.</translation>
    </message>
    <message>
        <source>It sent no list of models in time.</source>
        <translation>Er schickte nicht rechtzeitig eine Liste von Modellen.</translation>
    </message>
    <message>
        <source>The answer is a web page.</source>
        <translation>Die Antwort ist eine Webseite.</translation>
    </message>
    <message>
        <source>The answer is not valid JSON.</source>
        <translation>Die Antwort ist kein gültiges JSON.</translation>
    </message>
    <message>
        <source>The answer isn&apos;t a list of models.</source>
        <translation>Die Antwort ist keine Liste von Modellen.</translation>
    </message>
    <message>
        <source>The server answers {details}. {reason}</source>
        <translation>Der Server antwortet {details}. {reason}</translation>
    </message>
    <message>
        <source>Enter another key.</source>
        <translation>Geben Sie einen anderen Schlüssel ein.</translation>
    </message>
    <message>
        <source>It needs a key.</source>
        <translation>Er braucht einen Schlüssel.</translation>
    </message>
    <message>
        <source>The server answers {details}.</source>
        <translation>Der Server antwortet {details}.</translation>
    </message>
    <message>
        <source>It answers with {other}, and this chat asked {model}. Choose the model again.</source>
        <translation>Er antwortet mit {other}, und dieser Chat fragte {model}. Wählen Sie das Modell noch einmal.</translation>
    </message>
    <message>
        <source>The process that talks to servers ended. What has arrived is kept.</source>
        <translation>Der Prozess, der mit Servern spricht, ist beendet. Was angekommen ist, bleibt erhalten.</translation>
    </message>
    <message>
        <source>Its process ended; switch it on again.</source>
        <translation>Sein Prozess ist beendet; schalten Sie ihn wieder ein.</translation>
    </message>
    <message>
        <source>Port {port} can&apos;t be used: {reason}.</source>
        <translation>Port {port} ist nicht verwendbar: {reason}.</translation>
    </message>
    <message>
        <source>It is not a file of chats exported from Waymark, Open WebUI, LM Studio or ChatGPT.</source>
        <translation>Es ist keine Datei mit Chats aus Waymark, Open WebUI, LM Studio oder ChatGPT.</translation>
    </message>
    <message>
        <source>It was written by a newer version of Waymark.</source>
        <translation>Sie wurde von einer neueren Version von Waymark geschrieben.</translation>
    </message>
    <message>
        <source>It isn&apos;t JSON, or is damaged.</source>
        <translation>Sie ist kein JSON oder beschädigt.</translation>
    </message>
    <message>
        <source>the disk has {left} GiB left, and Waymark leaves {floor} GiB free</source>
        <translation>auf dem Datenträger sind {left} GiB frei, und Waymark lässt {floor} GiB frei</translation>
    </message>
    <message>
        <source>The messages take {length} tokens, and the context holds {limit}. Nothing was cut off.</source>
        <translation>Die Nachrichten brauchen {length} Token, und in den Kontext passen {limit}. Nichts wurde abgeschnitten.</translation>
    </message>
    <message>
        <source>No token of this model continues the reply in this format.</source>
        <translation>Kein Token dieses Modells setzt die Antwort in diesem Format fort.</translation>
    </message>
    <message>
        <source>The reply to continue is not in this format.</source>
        <translation>Die Antwort, die fortgesetzt wird, hat nicht dieses Format.</translation>
    </message>
    <message>
        <source>The format has become too complex to go on.</source>
        <translation>Das Format ist zu komplex geworden, um fortzufahren.</translation>
    </message>
    <message>
        <source>The process that reads its headers crashed.</source>
        <translation>Der Prozess, der seine Kopfdaten liest, ist abgestürzt.</translation>
    </message>
    <message>
        <source>The request failed: {reason}.</source>
        <translation>Die Anfrage schlug fehl: {reason}.</translation>
    </message>
    <message>
        <source>The system&apos;s list of certificates can&apos;t be read.</source>
        <translation>Die Zertifikatsliste des Systems kann nicht gelesen werden.</translation>
    </message>
    <message>
        <source>No such file or directory</source>
        <translation>Datei oder Ordner nicht gefunden</translation>
    </message>
    <message>
        <source>Permission denied</source>
        <translation>Zugriff verweigert</translation>
    </message>
    <message>
        <source>No space left on device</source>
        <translation>kein Platz mehr auf dem Datenträger</translation>
    </message>
    <message>
        <source>Read-only file system</source>
        <translation>schreibgeschützter Datenträger</translation>
    </message>
    <message>
        <source>Address already in use</source>
        <translation>Adresse schon belegt</translation>
    </message>
    <message>
        <source>The system doesn&apos;t let Waymark see it.</source>
        <translation>Das System lässt Waymark ihn nicht sehen.</translation>
    </message>
    <message>
        <source>Drag over the part to add. Enter adds all of it, Esc nothing.</source>
        <translation>Ziehen Sie über den Ausschnitt. Eingabe fügt alles hinzu, Esc nichts.</translation>
    </message>
</context>
</TS>
