// one-off: exact bytes & SSIM of avif/webp variants, luma and chroma
import sharp from 'sharp';
import { gallery } from './pictures/gallery.ts';
import { ssim, type Luma } from './quality/ssim.ts';
const planes = async (img: sharp.Sharp) => { const {data,info}=await img.toColourspace('srgb').flatten({background:'#fff'}).removeAlpha().raw().toBuffer({resolveWithObject:true}); const n=info.width*info.height, c=info.channels;
 const Y=new Float32Array(n),B=new Float32Array(n),R=new Float32Array(n);
 for(let i=0;i<n;i++){const r=data[i*c],g=data[i*c+(c>2?1:0)],b=data[i*c+(c>2?2:0)];const y=.299*r+.587*g+.114*b;Y[i]=y;B[i]=128+.564*(b-y);R[i]=128+.713*(r-y);}
 return [Y,B,R].map(d=>({width:info.width,height:info.height,data:d}) as Luma)};
const pics=(await gallery(()=>{})).filter((_,i)=>i%2===0);
const S: [string,(s:sharp.Sharp)=>sharp.Sharp][] = [
 ['avif 50 e4 444 (peer)', s=>s.avif()],
 ...[1,2,3].flatMap(e=>[46,49].map(q=>[`avif ${q} e${e} 420 ssim`,(s:sharp.Sharp)=>s.avif({quality:q,effort:e,chromaSubsampling:'4:2:0',tune:'ssim'})] as [string,(s:sharp.Sharp)=>sharp.Sharp])),
 ['avif 49 e1 444 ssim', s=>s.avif({quality:49,effort:1,tune:'ssim'})],
 ['avif 49 e1 420 psnr', s=>s.avif({quality:49,effort:1,chromaSubsampling:'4:2:0',tune:'psnr'})],
 ['avif 49 e1 420 iq', s=>s.avif({quality:49,effort:1,chromaSubsampling:'4:2:0',tune:'iq'})],
 ['webp 80 e4 (peer)', s=>s.webp()],
 ['webp 80 e2', s=>s.webp({effort:2})],
 ...(['picture','photo','drawing','text'] as const).map(p=>[`webp 80 e2 ${p}`,(s:sharp.Sharp)=>s.webp({effort:2,preset:p})] as [string,(s:sharp.Sharp)=>sharp.Sharp]),
];
const acc=S.map(()=>({b:0,c:0,y:0,ch:0}));
for(const p of pics){const {data,info}=await sharp(p.path).resize(1280,1280,{fit:'inside',withoutEnlargement:true}).flatten({background:'#fff'}).toColourspace('srgb').raw().toBuffer({resolveWithObject:true});
 const raw={width:info.width,height:info.height,channels:info.channels}; const ref=await planes(sharp(data,{raw}));
 for(const [i,[,f]] of S.entries()){const u=process.cpuUsage();const e=await f(sharp(data,{raw})).toBuffer();const d=process.cpuUsage(u);const a=acc[i]!;a.c+=(d.user+d.system)/1000;a.b+=e.length;const q=await planes(sharp(e));const v=q.map((x,k)=>ssim(x,ref[k]!));a.y+=v[0]!;a.ch+=(v[1]!+v[2]!)/2;}
 console.error(p.name);}
for(const [i,[n]] of S.entries()){const a=acc[i]!;const base=acc[n.startsWith('webp')?S.findIndex(([m])=>m.startsWith('webp')):0]!;console.log(n.padEnd(24),(a.y/pics.length).toFixed(4),((a.y-base.y)/pics.length).toFixed(4).padStart(8),'chroma',(a.ch/pics.length).toFixed(4),'bytes',(a.b/base.b).toFixed(3),'cpu',(a.c/base.c).toFixed(2),(a.c/pics.length).toFixed(0));}
