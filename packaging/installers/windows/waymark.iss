; Windows' installer, for Inno Setup 6.3 or newer:
;
;   ISCC /DVersion=0.1.0 /DBundle=FOLDER /DIcon=FILE.ico /O=OUTPUT_FOLDER waymark.iss
;
; FOLDER is what PyInstaller made. check_under_wine.sh compiles and tries this script without Windows.

#ifndef Version
  #error Say the version with /DVersion=1.2.3
#endif
#ifndef Bundle
  #error Say the folder that PyInstaller made with /DBundle=FOLDER
#endif
#ifndef Icon
  #error Say the icon with /DIcon=FILE.ico
#endif

[Setup]
; Never changed: by it an upgrade finds what was installed before.
AppId={{5D2B6C1E-0B8A-4E0E-9C53-7A4E3D6F1B92}
AppName=Waymark
AppVersion={#Version}
AppVerName=Waymark {#Version}
AppPublisher=The Waymark authors
VersionInfoVersion={#Version}
; As core/client/programs.py names it. Window, engine and helpers hold it, so setup and uninstall ask for
; all of them to be closed, and wait: the engine writes what it has read before it ends.
AppMutex=Waymark-5D2B6C1E-0B8A-4E0E-9C53-7A4E3D6F1B92
; Whatever else has a file open by the time it is replaced is asked by Windows.
CloseApplications=yes
RestartApplications=no

; One user, no administrator: this is where Windows keeps the programs of one user.
PrivilegesRequired=lowest
DefaultDirName={localappdata}\Programs\Waymark
DisableProgramGroupPage=yes
ArchitecturesAllowed=x64compatible
ArchitecturesInstallIn64BitMode=x64compatible
; The oldest that Qt runs on: Windows 10, version 1809.
MinVersion=10.0.17763

OutputBaseFilename=waymark-{#Version}-windows-x86_64-setup
SetupIconFile={#Icon}
UninstallDisplayIcon={app}\waymark.exe
WizardStyle=modern
Compression=lzma2
SolidCompression=yes
LZMAUseSeparateProcess=yes

#ifdef SignedUninstallers
; A folder. The first run leaves an uninstaller there and stops, so that it can be signed; the second takes it.
SignedUninstaller=yes
SignedUninstallerDir={#SignedUninstallers}
#endif

[Tasks]
Name: desktopicon; Description: "{cm:CreateDesktopIcon}"; GroupDescription: "{cm:AdditionalIcons}"; Flags: unchecked

[InstallDelete]
; A module that an older version had must not be found by a newer one.
Type: filesandordirs; Name: "{app}\_internal"
Type: filesandordirs; Name: "{app}\licences"

[Files]
Source: "{#Bundle}\*"; DestDir: "{app}"; Flags: recursesubdirs createallsubdirs ignoreversion

[Icons]
Name: "{autoprograms}\Waymark"; Filename: "{app}\waymark.exe"
Name: "{autodesktop}\Waymark"; Filename: "{app}\waymark.exe"; Tasks: desktopicon

[Run]
Filename: "{app}\waymark.exe"; Description: "{cm:LaunchProgram,Waymark}"; Flags: nowait postinstall skipifsilent

[CustomMessages]
DeleteData=Waymark is removed. Your chats, pictures and settings are still in%n%n%1%n%nDelete them too? This can't be undone.

[Code]
const
  AnswerGiven = '{param:DELETEDATA|ask}';

{ Without a person to ask, chats are kept: only /DELETEDATA=yes deletes them. A folder that the variable
  WAYMARK_DATA names is never touched. }
function WantsDataDeleted(const Folder: String): Boolean;
var
  Answer: String;
begin
  Answer := Lowercase(ExpandConstant(AnswerGiven));
  if (Answer = 'ask') and not UninstallSilent then
    Result := SuppressibleMsgBox(FmtMessage(CustomMessage('DeleteData'), [Folder]),
      mbConfirmation, MB_YESNO or MB_DEFBUTTON2, IDNO) = IDYES
  else
    Result := Answer = 'yes';
end;

procedure CurUninstallStepChanged(Step: TUninstallStep);
var
  Folder: String;
begin
  Folder := ExpandConstant('{localappdata}\waymark');
  if (Step = usPostUninstall) and DirExists(Folder) and WantsDataDeleted(Folder) then
    DelTree(Folder, True, True, True);
end;
