import time,tempfile
from pathlib import Path
from tests.pretrain.tiny_runs import started, corpus
if __name__=="__main__":
    d=Path(tempfile.mkdtemp()); f=corpus(d/"t")
    for k in ("rows","rows","sentences","transformer","rows"):
        t=time.time(); p=started(k,f,d/f"{k}{t}"); p.join(); print(k,p.exitcode,time.time()-t,flush=True)
